/* For the standard library's own use; see graphcap_cuda.h about the name. */
#pragma push_macro("ssize_t")
#undef ssize_t
#define ssize_t graphcap_host_ssize_t
#include_next <unistd.h>
#pragma pop_macro("ssize_t")
