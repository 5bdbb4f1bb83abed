// c = a b, of n x n and n x wide numbers, 64 x 64 results a workgroup, 4 x 4 an invocation: what a workgroup reads into its own memory is used 64 times,
// what an invocation reads there 4 times. Beyond the edges stand zeros.
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
var<workgroup> left: array<vec4<f32>, 272>; // at [k][row / 4]: of a, four rows' numbers; 17 apart, since neighbours at 16 would wait for one bank
var<workgroup> right: array<vec4<f32>, 256>; // at [k][column / 4]: of b, four columns'

fn of_a(n: u32, row: u32, k: u32) -> f32 { return select(0.0, a[row * n + k], max(row, k) < n); }
fn of_b(n: u32, wide: u32, k: u32, column: u32) -> f32 { return select(0.0, b[k * wide + column], k < n && column < wide); }

fn store(n: u32, wide: u32, row: u32, column: u32, sums: vec4<f32>) {
  for (var j = 0u; j < 4u; j++) {
    if (row < n && column + j < wide) { c[row * wide + column + j] = sums[j]; }
  }
}

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) tile: vec3<u32>, @builtin(local_invocation_id) me: vec3<u32>) {
  let n = u32(round(sqrt(f32(arrayLength(&a)))));
  let wide = arrayLength(&c) / n;
  let to = 64u * tile + 4u * me;
  var sums = mat4x4<f32>();
  for (var k = 0u; k < n; k += 16u) {
    let at = k + me; // neighbours read neighbours, of a too
    left[17u * me.x + me.y] = vec4<f32>(of_a(n, to.y, at.x), of_a(n, to.y + 1u, at.x), of_a(n, to.y + 2u, at.x), of_a(n, to.y + 3u, at.x));
    right[16u * me.y + me.x] = vec4<f32>(of_b(n, wide, at.y, to.x), of_b(n, wide, at.y, to.x + 1u), of_b(n, wide, at.y, to.x + 2u), of_b(n, wide, at.y, to.x + 3u));
    workgroupBarrier();
    for (var j = 0u; j < 16u; j++) {
      let down = left[17u * j + me.y];
      let across = right[16u * j + me.x];
      sums += mat4x4<f32>(down.x * across, down.y * across, down.z * across, down.w * across);
    }
    workgroupBarrier();
  }
  store(n, wide, to.y, to.x, sums[0]);
  store(n, wide, to.y + 1u, to.x, sums[1]);
  store(n, wide, to.y + 2u, to.x, sums[2]);
  store(n, wide, to.y + 3u, to.x, sums[3]);
}
