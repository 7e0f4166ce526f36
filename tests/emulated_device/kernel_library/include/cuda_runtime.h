/* For kernel text: nothing but what it knows anyway. The runtime's host functions are no part of it. */
#pragma once
#include "graphcap_cuda.h"
