// Fills of whole elements. SYCL's own pattern fill is a device kernel on Level Zero, which a plain C++ compiler cannot
// make, so the backend brings one; a pattern of equal bytes goes through memset instead.

kernel void fill_u8(global uchar *out, uchar value, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = value;
}

kernel void fill_u16(global ushort *out, ushort value, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = value;
}

kernel void fill_u32(global uint *out, uint value, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = value;
}

kernel void fill_u64(global ulong *out, ulong value, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) out[i] = value;
}

// 16-byte elements as two halves, so that they need be aligned to 8 bytes only.
kernel void fill_u128(global ulong *out, ulong low, ulong high, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) {
    out[2 * i] = low;
    out[2 * i + 1] = high;
  }
}
