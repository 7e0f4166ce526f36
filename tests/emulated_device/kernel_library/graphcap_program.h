/* Included before the text of every program that the kernel library compiles, and precompiled.
 *
 * Behind the declarations of CUDA C++ it has what the rewriter's output uses: registration of kernels whose types are the
 * compiler's affair, and name expressions, whose mangled names the dynamic linker knows once the image is loaded. */
#ifndef GRAPHCAP_PROGRAM_H
#define GRAPHCAP_PROGRAM_H

#include "graphcap_cuda.h"

#include <dlfcn.h>

#include <type_traits>

/* The rewriter reads it. */
#undef __launch_bounds__

namespace graphcap_detail {

/* The mangled name of a symbol of this image; `otherwise` for one that the image does not export. */
inline const char *symbol_of(const void *address, const char *otherwise) {
    Dl_info found;
    return dladdr(address, &found) && found.dli_sname && found.dli_saddr == address ? found.dli_sname : otherwise;
}

/* Puts a kernel into the table, once. A plain name is the name; any other is mangled. `bound`: the most threads of a block. */
template <class F> struct kernel_of {
    static_assert(!sizeof(F), "a name expression must name a __global__ function or a variable");
};
template <class... A> struct kernel_of<void (*)(A...)> {
    template <void (*kernel)(A...)> struct registration {
        registration(const char *name, bool plain, unsigned bound = 0) {
            for (const graphcap_kernel_entry *entry = graphcap_kernels; entry; entry = entry->next)
                if (entry->function == (const void *)kernel) return;
            const char *known = plain ? name : symbol_of((const void *)kernel, name);
            static typename entry<void (*)(A...)>::template of<kernel> made(known, bound);
        }
    };
};
template <class... A> struct kernel_of<void (*)(A...) noexcept> : kernel_of<void (*)(A...)> {};

struct lowered_name {
    unsigned index;
    const char *name;
    lowered_name *next;
};

}  // namespace graphcap_detail

/* The image's resolved name expressions, for the kernel library itself. */
extern "C" __attribute__((visibility("default"))) graphcap_detail::lowered_name *graphcap_lowered_names;

namespace graphcap_detail {

template <auto address> struct expression : lowered_name {
    explicit expression(unsigned number, const char *text, unsigned bound = 0) {
        using pointed = std::remove_pointer_t<decltype(address)>;
        if constexpr (std::is_function_v<pointed>) {
            typename kernel_of<decltype(address)>::template registration<address> made(text, false, bound);
            (void)made;
        }
        index = number;
        name = symbol_of((const void *)address, text);
        for (const graphcap_kernel_entry *entry = graphcap_kernels; entry; entry = entry->next)
            if (entry->function == (const void *)address) name = entry->name;  /* a kernel without a symbol */
        next = graphcap_lowered_names;
        graphcap_lowered_names = this;
    }
};

}  // namespace graphcap_detail

#endif
