// What an empty launch costs inside the emulated driver: time per launch of a one-node graph, in nanoseconds, submission and
// execution together. Prints one line per kind of node. Built and run by test_emulated_device_cost.py.
#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" void graphcap_emulator_logging(int);
extern "C" int graphcap_emulator_protection(int);

static void check(CUresult result, int line) {
    if (result != CUDA_SUCCESS) {
        std::fprintf(stderr, "line %d: error %d\n", line, static_cast<int>(result));
        std::exit(1);
    }
}
#define CHECK(call) check((call), __LINE__)

static void measure(const char* name, CUgraph graph, CUstream stream) {
    CUgraphExec executable;
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    double best = 1e30;
    for (int round = 0; round < 20; ++round) {
        constexpr int launches = 1000;
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < launches; ++i) CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        if (took.count() / launches < best) best = took.count() / launches;
    }
    std::printf("%s %.1f\n", name, best);
    CHECK(cuGraphExecDestroy(executable));
}

int main(int, char** arguments) {
    CHECK(cuInit(0));
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    graphcap_emulator_protection(0);
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    std::ifstream file(arguments[1], std::ios::binary);
    std::vector<char> image(std::istreambuf_iterator<char>(file), {});
    CUmodule module;
    CUfunction empty;
    CHECK(cuModuleLoadData(&module, image.data()));
    CHECK(cuModuleGetFunction(&empty, module, "empty"));
    for (int logging = 0; logging < 2; ++logging) {
        graphcap_emulator_logging(logging);
        CUgraph graph;
        CUgraphNode node;
        CHECK(cuGraphCreate(&graph, 0));
        CHECK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
        measure(logging ? "empty_logged" : "empty", graph, stream);
        CHECK(cuGraphDestroy(graph));
        CHECK(cuGraphCreate(&graph, 0));
        CUDA_KERNEL_NODE_PARAMS parameters{};
        parameters.func = empty;
        parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
        parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
        CHECK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
        measure(logging ? "kernel_logged" : "kernel", graph, stream);
        CHECK(cuGraphDestroy(graph));
    }
    return 0;
}
