#include "files.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

extern "C" char** environ;

namespace kernel_library {

bool read_file(const std::string& path, std::string& out) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return false;
    out.assign(std::istreambuf_iterator<char>(file), {});
    return !file.bad();
}

bool write_file(const std::string& path, std::string_view content) {
    static std::atomic<unsigned> counter{0};
    const std::string draft = path + "." + std::to_string(getpid()) + "." + std::to_string(counter++);
    {
        std::ofstream file(draft, std::ios::binary);
        file.write(content.data(), static_cast<std::streamsize>(content.size()));
        if (!file.flush()) {
            unlink(draft.c_str());
            return false;
        }
    }
    if (rename(draft.c_str(), path.c_str()) == 0) return true;
    unlink(draft.c_str());
    return false;
}

bool make_folders(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return !error;
}

TemporaryFolder::TemporaryFolder() {
    const char* parent = std::getenv("TMPDIR");
    std::string name = std::string(parent && *parent ? parent : "/tmp") + "/graphcap-compile-XXXXXX";
    if (mkdtemp(name.data())) path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Finished run_program(const std::vector<std::string>& command, const TemporaryFolder& scratch) {
    Finished out;
    static std::atomic<unsigned> counter{0};
    const std::string log = scratch.path() + "/output" + std::to_string(counter++);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::vector<std::string> kept;
    for (char** entry = environ; *entry; ++entry) {
        const std::string_view text(*entry);
        bool dropped = false;
        for (const char* name : {"LD_LIBRARY_PATH=", "LD_PRELOAD=", "LC_ALL=", "LANG=", "CPATH=", "CPLUS_INCLUDE_PATH="})
            dropped |= text.substr(0, std::strlen(name)) == name;
        if (!dropped) kept.emplace_back(text);
    }
    kept.emplace_back("LC_ALL=C");
    std::vector<char*> environment;
    for (std::string& entry : kept) environment.push_back(entry.data());
    environment.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child = 0;
    const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error) {
        out.output = command[0] + ": " + std::strerror(error) + "\n";
        return out;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return out;
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    read_file(log, out.output);
    return out;
}

FileLock::FileLock(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) continue;
}

FileLock::~FileLock() {
    if (file_ >= 0) close(file_);
}

}  // namespace kernel_library
