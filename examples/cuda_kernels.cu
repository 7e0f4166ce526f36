// A damped wave on a grid, two steps per replay; see cuda_kernels.py.

__global__ void wave_step(float *next, const float *now, const float *before, float speed, float damping, int nx, int ny)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    int i = y * nx + x;
    if (x == 0 || y == 0 || x == nx - 1 || y == ny - 1) {
        next[i] = 0.0f;
        return;
    }
    float bend = now[i - 1] + now[i + 1] + now[i - nx] + now[i + nx] - 4.0f * now[i];
    next[i] = now[i] + damping * (now[i] - before[i]) + speed * bend;
}

__global__ void add_energy(float *energy, const float *now, const float *before, int n)
{
    // One thread adds in a fixed order, so that the sum is the same on every device.
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = 0; i < n; i++) {
            float rate = now[i] - before[i];
            sum += rate * rate;
        }
        *energy = sum;
    }
}
