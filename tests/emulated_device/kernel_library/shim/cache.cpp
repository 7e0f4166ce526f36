#include "cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "files.h"
#include "sha256.h"
#include "toolchain.h"

namespace kernel_library {
namespace {

constexpr char format[] = "graphcap compiled program 1";

std::string base_name(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string place(const std::string& key) { return toolchain().cache + "/programs/" + key.substr(0, 2) + "/" + key.substr(2); }

// A file is a row of fields: eight bytes of length, then the bytes.
class Writer {
   public:
    void field(std::string_view bytes) {
        const uint64_t size = bytes.size();
        out_.append(reinterpret_cast<const char*>(&size), sizeof size);
        out_.append(bytes);
    }
    void number(uint64_t value) { field({reinterpret_cast<const char*>(&value), sizeof value}); }
    const std::string& text() const { return out_; }

   private:
    std::string out_;
};

class Reader {
   public:
    explicit Reader(std::string_view text) : text_(text) {}
    std::string_view field() {
        uint64_t size = 0;
        if (text_.size() < sizeof size) return fail();
        std::memcpy(&size, text_.data(), sizeof size);
        text_.remove_prefix(sizeof size);
        if (text_.size() < size) return fail();
        const std::string_view out = text_.substr(0, size);
        text_.remove_prefix(size);
        return out;
    }
    uint64_t number() {
        const std::string_view bytes = field();
        uint64_t value = 0;
        if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }
    bool good() const { return good_; }

   private:
    std::string_view fail() {
        good_ = false;
        text_ = {};
        return {};
    }
    std::string_view text_;
    bool good_ = true;
};

struct Seen {
    uint64_t size = 0, changed = 0;
};

bool look_at(const std::string& path, Seen& out) {
    struct stat found;
    if (stat(path.c_str(), &found) != 0) return false;
    out.size = static_cast<uint64_t>(found.st_size);
    out.changed = static_cast<uint64_t>(found.st_mtim.tv_sec) * 1000000000u + static_cast<uint64_t>(found.st_mtim.tv_nsec);
    return true;
}

std::string hash_of_file(const std::string& path) {
    std::string text;
    return read_file(path, text) ? Sha256().field(text).hex() : "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    if (from.empty() || from == to) return text;
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
    return text;
}

}  // namespace

std::string cache_key(const Request& request) {
    const Toolchain& tools = toolchain();
    Sha256 hash;
    hash.field(format).field(GRAPHCAP_SHIM_HASH).field(tools.compiler).field(tools.version).field(tools.headers_hash);
    hash.field(tools.features).field(request.source);
    // CuPy gives each compilation a new temporary folder; only the file's own name says something.
    hash.field(base_name(request.name));
    bool looks_around = request.source.find("#include \"") != std::string::npos;
    for (const auto& [name, text] : request.headers) {
        hash.field(name).field(text);
        looks_around |= text.find("#include \"") != std::string::npos;
    }
    for (const std::string& word : request.words) {
        hash.field(word);
        looks_around |= word.compare(0, 2, "-I") == 0 && word.compare(0, 3, "-I/") != 0;
    }
    hash.field("expressions");
    for (const std::string& expression : request.expressions) hash.field(expression);
    if (looks_around) {
        char* folder = getcwd(nullptr, 0);
        hash.field(folder ? folder : "");
        free(folder);
    }
    return hash.hex();
}

bool cache_load(const std::string& key, const Request& request, Compiled& out) {
    std::string text;
    if (!read_file(place(key), text)) return false;
    Reader reader(text);
    if (reader.field() != format) return false;
    const std::string name(reader.field());
    for (uint64_t count = reader.number(); count && reader.good(); --count) {
        const std::string path(reader.field());
        Seen then, now;
        then.size = reader.number();
        then.changed = reader.number();
        const std::string hash(reader.field());
        if (!look_at(path, now) || now.size != then.size) return false;
        if (now.changed != then.changed && hash_of_file(path) != hash) return false;
    }
    Compiled found;
    found.log = replaced(std::string(reader.field()), name, request.name);
    for (uint64_t count = reader.number(); count && reader.good(); --count) {
        const std::string expression(reader.field());
        found.lowered[expression] = std::string(reader.field());
    }
    found.image = std::string(reader.field());
    found.succeeded = true;
    if (!reader.good()) return false;
    out = std::move(found);
    return true;
}

void cache_store(const std::string& key, const Request& request, const Compiled& compiled, const std::vector<std::string>& files) {
    const Toolchain& tools = toolchain();
    Writer writer;
    writer.field(format);
    writer.field(request.name);
    std::vector<std::pair<std::string, Seen>> seen;
    for (const std::string& file : files) {  // ours are in the key already
        const bool ours = file == request.name || file.compare(0, tools.include.size(), tools.include) == 0 ||
                          file.compare(0, tools.cache.size(), tools.cache) == 0;
        if (Seen now; !ours && look_at(file, now)) seen.emplace_back(file, now);
    }
    writer.number(seen.size());
    for (const auto& [file, now] : seen) {
        writer.field(file);
        writer.number(now.size);
        writer.number(now.changed);
        writer.field(hash_of_file(file));
    }
    writer.field(compiled.log);
    writer.number(compiled.lowered.size());
    for (const auto& [expression, lowered] : compiled.lowered) {
        writer.field(expression);
        writer.field(lowered);
    }
    writer.field(compiled.image);
    const std::string path = place(key);
    if (make_folders(path.substr(0, path.rfind('/')))) write_file(path, writer.text());
}

}  // namespace kernel_library
