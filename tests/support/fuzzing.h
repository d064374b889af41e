// Helpers of the libFuzzer targets (https://llvm.org/docs/LibFuzzer.html): a file and a directory that hold an input,
// and checks of the Error that a target throws when it rejects an input.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/file.h"

/// For custom mutators: applies libFuzzer's standard mutations to `data`. Returns the new size.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace carillon {

/// If `holds` is false, aborts the program. libFuzzer then reports the input and the stack as a finding.
inline void fuzz_check(bool holds) {
  if (!holds) std::abort();
}

/// Returns the result of `action`. If `action` throws an Error with the exit code `code` and a text that starts with
/// `prefix`, returns nullopt. Any other exception is a finding.
template <typename Action>
auto accepted(std::string_view prefix, const Action& action, ExitCode code = ExitCode::data)
    -> std::optional<decltype(action())> {
  try {
    return action();
  } catch (const Error& error) {
    fuzz_check(error.code() == code);
    fuzz_check(std::string_view(error.what()).starts_with(prefix));
    return std::nullopt;
  }
}

/// A file in memory that every input of the fuzzer overwrites.
class ScratchFile {
 public:
  ScratchFile() : descriptor_(::memfd_create("fuzzing", MFD_CLOEXEC)) {}
  void assign(std::span<const std::byte> bytes) const {
    fuzz_check(::ftruncate(descriptor_.get(), 0) == 0 && ::lseek(descriptor_.get(), 0, SEEK_SET) == 0);
    fuzz_check(write_all(descriptor_.get(), bytes) == 0);
  }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_.get()); }

 private:
  Descriptor descriptor_;
};

/// An empty directory in /dev/shm if possible, otherwise in the directory for temporary files. The destructor removes
/// the directory.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::error_code none;
    const std::string memory = "/dev/shm";
    path_ = (std::filesystem::is_directory(memory, none) ? memory : std::filesystem::temp_directory_path().string()) +
            "/carillon-fuzzing-XXXXXX";
    fuzz_check(::mkdtemp(path_.data()) != nullptr);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(std::string_view name) const { return fmt::format("{}/{}", path_, name); }
  std::string write(std::string_view name, std::span<const std::byte> bytes) const {
    const Descriptor file(::open(path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    fuzz_check(file && write_all(file.get(), bytes) == 0);
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace carillon
