// Each invocation reads four elements of x, does its steps with them, and writes them to y. What stands in place of the line STEPS is
// written out step by step, so that no loop takes part of the time; none is a copy. The four are independent chains.
struct Numbers { a: vec4<f32>, b: vec4<f32> } // no constants: a compiler that knew them might write the steps in another way
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> by: Numbers;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.y * groups.x * 64u + id.x; // a second dimension where one cannot count all workgroups
  if (i >= arrayLength(&y)) { return; }
  var v = x[i];
  // STEPS
  y[i] = v;
}
