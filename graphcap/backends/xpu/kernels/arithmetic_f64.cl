// As arithmetic.cl, in double precision: a module of its own, because a device without 64-bit floats refuses to load any
// module that names them.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

kernel void add_scalar_f64(global double *x, double value, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) x[i] += value;
}

kernel void scale_f64(global double *x, double factor, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) x[i] *= factor;
}

kernel void add_f64(global double *out, global const double *x, global const double *y, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = x[i] + y[i];
}

kernel void axpy_f64(global double *out, double a, global const double *x, global const double *y, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = a * x[i] + y[i];
}
