// One explicit step of hillslope diffusion for examples/terrain.py, in the order of operations of its NumPy code, so that
// single-precision NumPy gives the same bits. The rim is copied.
//
// Launched over (rows, columns): SYCL numbers dimensions from the slowest, OpenCL from the fastest.

kernel void diffuse_f32(global float *out, global const float *z, float kx, float ky, ulong rows, ulong columns) {
  ulong row = get_global_id(1);
  ulong column = get_global_id(0);
  if (row >= rows || column >= columns) return;
  ulong here = row * columns + column;
  float centre = z[here];
  if (row == 0 || column == 0 || row + 1 == rows || column + 1 == columns) {
    out[here] = centre;
    return;
  }
  float across = z[here - 1] - 2.0f * centre + z[here + 1];
  float along = z[here - columns] - 2.0f * centre + z[here + columns];
  out[here] = centre + kx * across + ky * along;
}
