/* All of it is known without an #include (graphcap_cuda.h). */
#pragma once
#include "graphcap_cuda.h"
