// cuGraphDebugDotPrint, in the text that NVIDIA's driver of the CUDA 13 era prints (dot-formats, section 1).
// Forms that nobody has seen printed (host, event, memory nodes without flags) follow the other forms; see the README.
#include <cstdarg>
#include <cstdio>
#include <deque>
#include <fstream>

#include "copy.h"
#include "graph.h"
#include "kernel.h"
#include "memory.h"

namespace emulator {
namespace {

struct Writer {
    std::string text;
    unsigned flags;
    std::deque<const Graph*> pending;

    bool wants(unsigned flag) const { return flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE); }
    void put(const char* format, ...) __attribute__((format(printf, 2, 3))) {
        va_list arguments;
        va_start(arguments, format);
        char line[1024];
        const int length = vsnprintf(line, sizeof line, format, arguments);
        va_end(arguments);
        if (length >= static_cast<int>(sizeof line)) {
            std::string longer(static_cast<size_t>(length) + 1, 0);
            va_start(arguments, format);
            vsnprintf(longer.data(), longer.size(), format, arguments);
            va_end(arguments);
            longer.pop_back();
            text += longer;
        } else {
            text += line;
        }
    }
};

std::string pointer(uintptr_t value) {
    char out[32];
    snprintf(out, sizeof out, "0x%016lX", static_cast<unsigned long>(value));
    return out;
}

std::string extent(const unsigned (&v)[3]) {
    if (v[2] > 1) return "\\{" + std::to_string(v[0]) + "," + std::to_string(v[1]) + "," + std::to_string(v[2]) + "\\}";
    if (v[1] > 1) return "\\{" + std::to_string(v[0]) + "," + std::to_string(v[1]) + "\\}";
    return std::to_string(v[0]);
}

// Record labels give < > { } | a meaning of their own.
std::string escaped(const std::string& name) {
    std::string out;
    for (char c : name) {
        if (c == '<' || c == '>' || c == '{' || c == '}' || c == '|' || c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

const char* property(CUaccessProperty value) {
    return value == CU_ACCESS_PROPERTY_STREAMING ? "S" : value == CU_ACCESS_PROPERTY_PERSISTING ? "P" : "N";
}

struct Item {
    const Graph& graph;
    const Node& node;
    unsigned topo;
    std::string id() const { return std::to_string(node.index) + " (topoId: " + std::to_string(topo) + ")"; }
    std::string name() const { return "graph_" + std::to_string(graph.number) + "_node_" + std::to_string(node.index); }
    std::string handle() const { return pointer(node.handle); }
};

void kernel_node(Writer& w, const Item& item, const KernelOperation& k) {
    const bool parameters = w.wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS);
    const bool attributes = w.wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES);
    if (!parameters && !attributes) {
        w.put("\"%s\"[style=\"bold\" shape=\"octagon\" label=\"%u\n%s\n\"];\n\n", item.name().c_str(), item.node.index,
              escaped(k.code->name).c_str());
        return;
    }
    w.put("\"%s\"[style=\"bold\" shape=\"record\" label=\"{KERNEL\n", item.name().c_str());
    w.put("| {ID | %s | %s\\<\\<\\<%s,%s,%u\\>\\>\\>}\n", item.id().c_str(), escaped(k.code->name).c_str(), extent(k.grid).c_str(),
          extent(k.block).c_str(), k.shared);
    if (w.wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES) || parameters)
        w.put("| {{node handle | func handle} | {%s | %s}}\n", item.handle().c_str(),
              pointer(reinterpret_cast<uintptr_t>(k.function)).c_str());
    if (attributes) {
        const auto& a = k.attributes;
        w.put("| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio | hitProp | missProp} | {%s | %zu | %f | %s | %s}}\n",
              pointer(reinterpret_cast<uintptr_t>(a.window.base_ptr)).c_str(), a.window.num_bytes, static_cast<double>(a.window.hitRatio),
              property(a.window.hitProp), property(a.window.missProp));
        w.put("| {cooperative | %d}\n| {priority | %d}\n", a.cooperative, a.priority);
        w.put("| {cluster dim | (%u,%u,%u)}\n| {preferred cluster dim | (%u,%u,%u)}\n", a.cluster[0], a.cluster[1], a.cluster[2],
              a.preferred_cluster[0], a.preferred_cluster[1], a.preferred_cluster[2]);
        w.put("| {cluster scheduling policy preference | %d}\n", static_cast<int>(a.cluster_policy));
    }
    w.put("}\"];\n\n");
}

void copy_node(Writer& w, const Item& item, const CopyOperation& c) {
    const auto& p = c.parameters;
    bool from_pinned, to_pinned;
    const char* kind = copy::direction(p, from_pinned, to_pinned);
    if (!w.wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)) {
        w.put("\"%s\"[style=\"solid\" shape=\"trapezium\" label=\"%u\nMEMCPY\n(%s,%zu)\n\"];\n\n", item.name().c_str(), item.node.index,
              kind, copy::bytes_of(p));
        return;
    }
    auto place = [](char letter, bool pinned) {
        return std::string(letter == 'D' ? "DEVICE" : pinned ? "HOST PINNED" : "HOST PAGEABLE");
    };
    w.put("\"%s\"[style=\"solid\" shape=\"record\" label=\"{\nMEMCPY\n", item.name().c_str());
    w.put("| {{ID | node handle} | {%s | %s}}\n", item.id().c_str(), item.handle().c_str());
    w.put("| {kind | %s (%s to %s)}\n", kind, place(kind[0], from_pinned).c_str(), place(kind[3], to_pinned).c_str());
    const bool flat = p.Height == 1 && p.Depth == 1;
    w.put("| {{srcPtr | dstPtr} | {pitch | ptr | xsize | ysize | pitch | ptr | xsize | ysize} | "
          "{%zu | %s | %zu | %zu | %zu | %s | %zu | %zu}}\n",
          p.srcPitch, pointer(copy::source_of(p)).c_str(), flat ? 0 : p.srcPitch, flat ? 0 : p.srcHeight, p.dstPitch,
          pointer(copy::target_of(p)).c_str(), flat ? 0 : p.dstPitch, flat ? 0 : p.dstHeight);
    w.put("| {{srcPos | {{x | %zu} | {y | %zu} | {z | %zu}}} | {dstPos | {{x | %zu} | {y | %zu} | {z | %zu}}} | "
          "{Extent | {{Width | %zu} | {Height | %zu} | {Depth | %zu}}}}\n}\"];\n\n",
          p.srcXInBytes, p.srcY, p.srcZ, p.dstXInBytes, p.dstY, p.dstZ, p.WidthInBytes, p.Height, p.Depth);
}

void fill_node(Writer& w, const Item& item, const FillOperation& f) {
    const auto& p = f.parameters;
    if (!w.wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS)) {
        w.put("\"%s\"[style=\"solid\" shape=\"invtrapezium\" label=\"%u\nMEMSET\n(%u,%zu)\n\"];\n\n", item.name().c_str(),
              item.node.index, p.value, p.width * p.elementSize * p.height);
        return;
    }
    w.put("\"%s\"[style=\"solid\" style=\"solid\" shape=\"record\" label=\"{MEMSET\n", item.name().c_str());
    w.put("| {{ID | node handle | dptr | pitch | value | elementSize | width | height} | "
          "{%s | %s | %s | %zu | %u | %u | %zu | %zu}}}\"];\n\n",
          item.id().c_str(), item.handle().c_str(), pointer(p.dst).c_str(), p.pitch, p.value, p.elementSize, p.width, p.height);
}

// Forms without a picture of their own: the keyword, and with the flag the details in lines.
void plain_node(Writer& w, const Item& item, const char* word, bool detailed, const std::string& details) {
    w.put("\"%s\"[style=\"solid\" shape=\"rectangle\" label=\"%s\n", item.name().c_str(),
          detailed ? item.id().c_str() : std::to_string(item.node.index).c_str());
    w.text += word;
    w.text += '\n';
    if (detailed) w.put("node handle: %s\n%s", item.handle().c_str(), details.c_str());
    w.put("\"];\n\n");
}

void memory_node(Writer& w, const Item& item) {
    const bool alloc = item.node.operation->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    const char* word = alloc ? "MEM_ALLOC" : "MEM_FREE";
    if (!w.wants(alloc ? CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS : CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS)) {
        plain_node(w, item, word, false, "");
        return;
    }
    w.put("\"%s\"[style=\"solid\" shape=\"record\" label=\"{\n%s\n| {{ID | node handle} | {%s | %s}}\n", item.name().c_str(), word,
          item.id().c_str(), item.handle().c_str());
    if (alloc) {
        const auto& a = static_cast<const AllocOperation&>(*item.node.operation);
        w.put("| {{{poolProps | {allocType | handleTypes | {location | {type | id}}} | {PINNED | NONE | DEVICE | %d}}}}\n",
              a.allocation->device->ordinal);
        w.put("| {{bytesize | dptr} | {%zu | %s}}\n", a.bytes, pointer(a.allocation->address).c_str());
    } else {
        w.put("| {{dptr} | {%s}}\n", pointer(static_cast<const FreeOperation&>(*item.node.operation).pointer).c_str());
    }
    w.put("}\"];\n\n");
}

void conditional_node(Writer& w, const Item& item, const ConditionalOperation& c) {
    static const char* const kinds[] = {"IF", "WHILE", "SWITCH"};
    for (const auto& body : c.bodies) w.pending.push_back(body.get());
    if (!w.wants(CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS)) {
        std::string bodies;
        for (const auto& body : c.bodies) bodies += "graph_" + std::to_string(body->number) + "\n";
        w.put("\"%s\"[style=\"solid\" shape=\"rectangle\" label=\"%u\nCONDITIONAL\n%s\"];\n\n", item.name().c_str(), item.node.index,
              bodies.c_str());
        return;
    }
    w.put("\"%s\"[style=\"bold\" shape=\"record\" label=\"{\nCONDITIONAL\n| {ID | %u}\n| {Conditional Type| %s}\n", item.name().c_str(),
          item.node.index, kinds[c.kind]);
    for (size_t i = 0; i < c.bodies.size(); ++i) {
        const std::string row = c.kind == CU_GRAPH_COND_TYPE_SWITCH ? std::to_string(i) : i == 0 ? "True" : "False";
        w.put("| {%s|graph_%u}\n", row.c_str(), c.bodies[i]->number);
    }
    w.put("}\n\"];\n\n");
}

void node(Writer& w, const Item& item) {
    const Operation& operation = *item.node.operation;
    switch (operation.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
            return kernel_node(w, item, static_cast<const KernelOperation&>(operation));
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return copy_node(w, item, static_cast<const CopyOperation&>(operation));
        case CU_GRAPH_NODE_TYPE_MEMSET:
            return fill_node(w, item, static_cast<const FillOperation&>(operation));
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
            return memory_node(w, item);
        case CU_GRAPH_NODE_TYPE_CONDITIONAL:
            return conditional_node(w, item, static_cast<const ConditionalOperation&>(operation));
        case CU_GRAPH_NODE_TYPE_GRAPH: {
            const Graph* body = static_cast<const ChildOperation&>(operation).body.get();
            w.pending.push_back(body);
            return plain_node(w, item, ("graph_" + std::to_string(body->number)).c_str(), w.wants(0), "");
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const auto& host = static_cast<const HostOperation&>(operation);
            return plain_node(w, item, "HOST", w.wants(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS),
                              "fn: " + pointer(reinterpret_cast<uintptr_t>(host.fn)) +
                                  "\nuserData: " + pointer(reinterpret_cast<uintptr_t>(host.user_data)) + "\n");
        }
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return plain_node(w, item, operation.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? "EVENT_RECORD" : "EVENT_WAIT",
                              w.wants(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS),
                              "event: " + pointer(static_cast<const EventOperation&>(operation).event->handle) + "\n");
        default:
            return plain_node(w, item, "EMPTY", w.wants(0), "");
    }
}

void cluster(Writer& w, const Graph& graph) {
    w.put("subgraph cluster_%u {\nlabel=\"graph_%u\" graph[style=\"dashed\"];\n", graph.number, graph.number);
    // topoId falls along edges, as in every short dump seen.
    std::unordered_map<const Node*, unsigned> topo;
    const auto order = graph::order(graph);
    for (size_t i = 0; i < order.size(); ++i) topo[order[i]] = static_cast<unsigned>(order.size() - 1 - i);
    for (const auto& one : graph.nodes) node(w, {graph, *one, topo[one.get()]});
    std::unordered_map<const Node*, unsigned> position;
    for (const auto& from : graph.nodes)
        for (const Node* to : from->dependents) {
            unsigned head = 0;
            while (to->dependencies[head].node != from.get()) ++head;
            w.put("\"graph_%u_node_%u\" -> \"graph_%u_node_%u\" [headlabel=%u];\n", graph.number, from->index, graph.number, to->index, head);
        }
    w.put("}\n");
}

}  // namespace

extern "C" CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int flags)
CALL(cuGraphDebugDotPrint, initialised, nullptr) {
    const Graph* graph = graph::find(handle);
    if (!graph || !path) return CUDA_ERROR_INVALID_VALUE;
    Writer writer;
    writer.flags = flags;
    writer.text = "digraph dot {\n";
    writer.pending.push_back(graph);
    while (!writer.pending.empty()) {
        const Graph* next = writer.pending.front();
        writer.pending.pop_front();
        cluster(writer, *next);
    }
    writer.text += "}\n";
    std::ofstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
    file << writer.text;
    file.close();
    return file ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
} END_CALL

}  // namespace emulator
