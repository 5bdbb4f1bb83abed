// One thread adds 1 to a counter: so many dispatches ran as the counter says.
@group(0) @binding(2) var<storage, read_write> counter: array<f32>;

@compute @workgroup_size(1)
fn main() {
  counter[0] += 1.0;
}
