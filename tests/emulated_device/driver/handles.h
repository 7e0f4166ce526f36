// Reference counting and the handle tables.
//
// A handle is an address that nothing is mapped at: kind and serial number, never used twice. So a stale or foreign
// handle is always recognised, whatever sequence of calls produced it, and is refused instead of dereferenced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace emulator {

// Counts are plain integers: they change only while the driver's lock is held.
struct Counted {
    unsigned references = 0;
    uintptr_t handle = 0;
    virtual ~Counted() = default;
};

template <class T>
class Ref {
  public:
    Ref() = default;
    Ref(T* object) : object_(object) { retain(); }
    Ref(const Ref& other) : object_(other.object_) { retain(); }
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    template <class U>
    Ref(const Ref<U>& other) : Ref(static_cast<T*>(other.get())) {}
    ~Ref() { release(); }
    Ref& operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    T* get() const { return static_cast<T*>(object_); }
    T* operator->() const { return get(); }
    T& operator*() const { return *get(); }
    explicit operator bool() const { return object_ != nullptr; }

  private:
    void retain() {
        if (object_) ++object_->references;
    }
    void release() {
        if (object_ && --object_->references == 0) delete object_;
        object_ = nullptr;
    }
    Counted* object_ = nullptr;  // not T*: T may be incomplete where a Ref is copied or dies
};

template <class T, class... A>
Ref<T> make(A&&... arguments) {
    return Ref<T>(new T(std::forward<A>(arguments)...));
}

enum class Kind : unsigned {
    context, stream, event, graph, executable, node, module, library, kernel, function, pool, user_object,
};

template <class T>
class Table {
  public:
    explicit Table(Kind kind) : base_((uintptr_t{0x10} + static_cast<unsigned>(kind)) << 40) {}

    uintptr_t add(const Ref<T>& object) {
        slots_.push_back(object);
        ++live_;
        const uintptr_t handle = base_ + (slots_.size() << stride);
        static_cast<Counted*>(object.get())->handle = handle;
        return handle;
    }
    T* find(const void* handle) const {
        const uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - base_;
        const size_t index = (offset >> stride) - 1;
        if ((offset & ((1u << stride) - 1)) != 0 || index >= slots_.size()) return nullptr;
        return slots_[index].get();
    }
    // The reference is handed to the caller, so that the object's destructor never runs inside the table.
    Ref<T> remove(uintptr_t handle) {
        const size_t index = ((handle - base_) >> stride) - 1;
        if (index >= slots_.size() || !slots_[index]) return {};
        --live_;
        return std::exchange(slots_[index], Ref<T>());
    }
    size_t live() const { return live_; }
    template <class F>
    void each(F&& visit) const {
        for (const auto& slot : slots_)
            if (slot) visit(*slot);
    }

  private:
    static constexpr unsigned stride = 7;
    uintptr_t base_;
    size_t live_ = 0;
    std::vector<Ref<T>> slots_;
};

template <class H, class T>
H handle_of(const T* object) {
    return object ? reinterpret_cast<H>(object->handle) : nullptr;
}

}  // namespace emulator
