// Small element-wise kernels for the conformance suite, the tests and the documentation. Every one takes the number of
// elements last and ignores work-items beyond it.

kernel void add_scalar_i32(global int *x, int value, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) x[i] += value;
}

kernel void scale_i32(global int *x, int factor, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) x[i] *= factor;
}

kernel void add_i32(global int *out, global const int *x, global const int *y, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = x[i] + y[i];
}

kernel void add_scalar_f32(global float *x, float value, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) x[i] += value;
}

kernel void scale_f32(global float *x, float factor, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) x[i] *= factor;
}

kernel void add_f32(global float *out, global const float *x, global const float *y, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = x[i] + y[i];
}

// out = a * x + y, rounded after the product and after the sum; out may be x or y
kernel void axpy_f32(global float *out, float a, global const float *x, global const float *y, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = a * x[i] + y[i];
}

// Sum of each work-group into one element, through local memory of the group's size (a power of two).
kernel void group_sum_i32(global int *sums, global const int *x, local int *scratch, ulong count) {
  ulong i = get_global_id(0);
  uint lane = get_local_id(0);
  scratch[lane] = i < count ? x[i] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint step = get_local_size(0) / 2; step > 0; step /= 2) {
    if (lane < step) scratch[lane] += scratch[lane + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0) sums[get_group_id(0)] = scratch[0];
}
