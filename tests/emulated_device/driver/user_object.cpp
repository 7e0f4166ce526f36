// User objects: destructors that run when the last graph or executable that holds one is gone.
#include <algorithm>

#include "graph.h"
#include "scheduler.h"

namespace emulator {
namespace {

void drop(UserObject& object, long count) {
    object.count -= count;
    if (object.count > 0 || !object.handle) return;
    const CUhostFn destroy = object.destroy;
    void* pointer = object.pointer;
    const uintptr_t handle = object.handle;
    object.handle = 0;
    // As with the driver, the destructor runs later, on a thread of the driver's, and may call nothing of it.
    scheduler::on_callback_thread([=] { destroy(pointer); });
    state().user_objects.remove(handle);
}

UserObject* find(CUuserObject handle) { return state().user_objects.find(handle); }

}  // namespace

namespace graph {
void release_users(UserReferences& users) {
    auto all = std::move(users);
    users.clear();
    for (auto& user : all) drop(*user.first, user.second);
}
}  // namespace graph

extern "C" {

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned int count, unsigned int flags)
CALL(cuUserObjectCreate, initialised, nullptr) {
    if (!out || !destroy || !count || count > 0x7fffffffu || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    auto object = make<UserObject>();
    object->pointer = pointer;
    object->destroy = destroy;
    object->count = count;
    *out = reinterpret_cast<CUuserObject>(state().user_objects.add(object));
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuUserObjectRetain(CUuserObject handle, unsigned int count) CALL(cuUserObjectRetain, initialised, nullptr) {
    UserObject* object = find(handle);
    if (!object || !count || count > 0x7fffffffu) return CUDA_ERROR_INVALID_VALUE;
    object->count += count;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuUserObjectRelease(CUuserObject handle, unsigned int count) CALL(cuUserObjectRelease, initialised, nullptr) {
    UserObject* object = find(handle);
    if (!object || !count || count > 0x7fffffffu) return CUDA_ERROR_INVALID_VALUE;
    drop(*object, count);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count, unsigned int flags)
CALL(cuGraphRetainUserObject, initialised, nullptr) {
    Graph* graph = graph::find(graph_handle);
    UserObject* object = find(handle);
    if (!graph || !object || !count || count > 0x7fffffffu || (flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)))
        return CUDA_ERROR_INVALID_VALUE;
    // With MOVE the caller's references become the graph's; more than exist is accepted (E-33).
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) object->count += count;
    graph->users[Ref<UserObject>(object)] += count;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count)
CALL(cuGraphReleaseUserObject, initialised, nullptr) {
    Graph* graph = graph::find(graph_handle);
    UserObject* object = find(handle);
    if (!graph || !object || !count || count > 0x7fffffffu) return CUDA_ERROR_INVALID_VALUE;
    auto found = graph->users.find(Ref<UserObject>(object));
    if (found == graph->users.end()) return CUDA_SUCCESS;  // over-release is no error (E-33)
    const long taken = std::min<long>(count, found->second);
    const Ref<UserObject> keep(object);
    if ((found->second -= taken) == 0) graph->users.erase(found);
    drop(*object, taken);
    return CUDA_SUCCESS;
} END_CALL

}  // extern "C"
}  // namespace emulator
