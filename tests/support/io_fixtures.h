// Fixtures of the I/O tests: a directory that is removed at the end of the test, small buffers, and functions that read
// or write whole files.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    auto pattern = (std::filesystem::temp_directory_path() / "carillon-io-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::size_t entry_count(const std::filesystem::path& directory) {
  using Iterator = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Iterator(directory), Iterator()));
}

inline CheckpointState small_state(std::int64_t step = 7) {
  return {.model = "mnist",
          .global_step = step,
          .seed = 0xfedcba9876543210u,
          .stream_position = 1400,
          .options_json = R"({"batch-size": 100, "data": ["größe/*.tfrecord"]})",
          .variables = {{"layer1/biases", {2}, {1, 2}}, {"layer1/weights", {3, 2}, {1, -2, 3.5f, -0.0f, 5e-40f, 6}}},
          .moving_averages = {{"layer1/biases", {2}, {3, 4}}},
          .optimizer = {{"momentum", {{"layer1/biases", {2}, {5, 6}}}}}};
}

/// Runs `action`, which must throw an Error, and returns the Error.
template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ExitCode::done, ""};
}

/// Simulates a full disk. While an object of this class exists, this process, even as root, cannot make a file larger
/// than `bytes` bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

}  // namespace carillon::testing

namespace carillon {

inline bool operator==(const NamedArray& a, const NamedArray& b) {
  return a.name == b.name && a.shape == b.shape && a.values == b.values;
}

inline void expect_equal(const CheckpointState& a, const CheckpointState& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.global_step, b.global_step);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.stream_position, b.stream_position);
  EXPECT_EQ(a.options_json, b.options_json);
  EXPECT_TRUE(a.variables == b.variables);
  EXPECT_TRUE(a.moving_averages == b.moving_averages);
  EXPECT_TRUE(a.optimizer == b.optimizer);
}

}  // namespace carillon
