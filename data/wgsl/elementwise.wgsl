// Each invocation reads eight elements of x, does its steps with them, and writes them to y. What stands in place of the line STEPS is
// written out step by step, so that no loop takes part of the time; none is a copy. The eight are independent chains, and both halves are
// read before the first is written: with fewer bytes on their way a fast memory waits (Little's law).
struct Numbers { a: vec4<f32>, b: vec4<f32> } // no constants: a compiler that knew them might write the steps in another way
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> other: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> by: Numbers;

fn stepped(start: vec4<f32>, r: vec4<f32>) -> vec4<f32> {
  var v = start;
  // STEPS
  return v;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) me: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = (group.y * groups.x + group.x) * 128u + me.x; // a second dimension where one cannot count all workgroups
  let j = i + 64u;
  let first = x[i];
  let second = x[j];
  let r = other[i];
  let s = other[j];
  if (i < arrayLength(&y)) { y[i] = stepped(first, r); }
  if (j < arrayLength(&y)) { y[j] = stepped(second, s); }
}
