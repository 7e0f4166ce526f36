// In the place of CuPy's header of this name, which brings libcu++'s names into std for NVRTC: here std is the host's.
#pragma once
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>
