// Files, temporary folders and child processes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kernel_library {

// Whole file, or false.
bool read_file(const std::string& path, std::string& out);
// Whole or not at all: written beside its place and moved there.
bool write_file(const std::string& path, std::string_view content);
bool make_folders(const std::string& path);

// Goes away with all that is in it.
class TemporaryFolder {
   public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::string& path() const { return path_; }

   private:
    std::string path_;  // empty: could not be made
};

struct Finished {
    int status = -1;     // the exit status; -1: could not be started
    std::string output;  // of both streams
};

// Runs a program with messages in English and without what our own libraries put in the way of a compiler.
Finished run_program(const std::vector<std::string>& command, const TemporaryFolder& scratch);

// Holds a lock file; other processes wait. An unusable file locks nothing.
class FileLock {
   public:
    explicit FileLock(const std::string& path);
    ~FileLock();
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

   private:
    int file_;
};

}  // namespace kernel_library
