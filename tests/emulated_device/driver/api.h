// The driver's own header, read so that every function we define is checked against its declaration.
#pragma once

#define CUDA_ENABLE_DEPRECATED  // we implement deprecated functions too; do not warn about them
#include <cuda.h>
#include <cudaTypedefs.h>

#define EXPORT  // marks what has no declaration in cuda.h; exports.map decides what the library shows
