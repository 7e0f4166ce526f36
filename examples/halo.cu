// One explicit step of diffusion on a slab of rows, for halo.py: the operations of the NumPy code in the same order. The rim is
// copied. Compiled without contraction of a * b + c, so that NumPy in single precision gives the same bits.

extern "C" __global__ void diffuse(float *out, const float *z, float k, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || column >= columns) return;
    int here = row * columns + column;
    float centre = z[here];
    if (row == 0 || column == 0 || row + 1 == rows || column + 1 == columns) {
        out[here] = centre;
        return;
    }
    float across = z[here - 1] - 2.0f * centre + z[here + 1];
    float along = z[here - columns] - 2.0f * centre + z[here + columns];
    out[here] = centre + k * across + k * along;
}
