// Tests how much memory the writing of a checkpoint needs. Each case runs in a separate process.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <string_view>

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_format.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

constexpr double mebibytes_of_state = 96.0;
/// Largest allowed growth of the process's memory, in MiB, while it builds a checkpoint. The file in memory is as large
/// as the state, but each array of the state is freed when the file contains it.
constexpr double most_mebibytes = 1.4 * mebibytes_of_state;

/// Returns a state of many arrays. Each array is small compared with the whole state.
CheckpointState large_state() {
  CheckpointState state = small_state();
  constexpr std::int64_t arrays = 48, values = std::int64_t{1} << 19;  // each array has 2 MiB
  state.variables.clear();
  for (std::int64_t i = 0; i < arrays; ++i) {
    state.variables.push_back({"array" + std::to_string(100 + i), {values}, std::vector<float>(values, 1.0f)});
  }
  state.moving_averages = {};
  state.optimizer.clear();
  return state;
}

/// Returns the value, in MiB, of a line of /proc/self/status. VmRSS: resident memory; VmHWM: its maximum.
double mebibytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stod(line.substr(name.size() + 1)) / 1024.0;
  }
  return 1e9;
}

/// Ends the process: with code 0 if `used` is at most `most` (both in MiB), otherwise with code 1.
[[noreturn]] void end(double used, double most) {
  std::fprintf(stderr, "%.0f MiB, of at most %.0f\n", used, most);
  _exit(used <= most ? 0 : 1);
}

void encode() {
  const double before = mebibytes("VmRSS");
  const std::vector<std::byte> bytes = encode_checkpoint(large_state());
  end(mebibytes("VmHWM") - before, most_mebibytes);
}

void write_twice(const std::filesystem::path& directory) {
  const double before = mebibytes("VmRSS");
  CheckpointWriter writer(directory, CheckpointRetention{});
  for (int i = 0; i < 2; ++i) {
    writer.start(large_state());
    writer.finish();
  }
  end(mebibytes("VmHWM") - before, most_mebibytes);
}

void write_once(const std::filesystem::path& directory) {
  const double before = mebibytes("VmRSS");
  CheckpointWriter writer(directory, CheckpointRetention{});
  writer.start(large_state());
  writer.finish();
  end(mebibytes("VmRSS") - before, 0.25 * mebibytes_of_state);
}

/// Builds a checkpoint while this process can get only `bytes` more bytes of address space. Ends the process with code
/// 0, or with code 7 if the memory is exhausted. Exit handlers run in both cases.
[[noreturn]] void encode_within(std::uint64_t bytes) {
  CheckpointState state = large_state();
  static_cast<void>(checkpoint_library());
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(mebibytes("VmSize") * (1 << 20)) + bytes;
  setrlimit(RLIMIT_AS, &limit);
  try {
    encode_checkpoint(std::move(state));
  } catch (const Error& error) {
    std::exit(error.code() == ExitCode::failed ? 7 : 1);
  } catch (const std::bad_alloc&) {
    std::exit(7);
  }
  std::exit(0);
}

// AddressSanitizer does not release freed memory. It also ends a process with a limited address space.
#ifndef __SANITIZE_ADDRESS__

TEST(CheckpointMemory, ThatIsExhaustedEndsWithTheCodeOfAFailure) {
  const auto is_as_expected = [](int status) {
    return WIFEXITED(status) && (WEXITSTATUS(status) == 7 || WEXITSTATUS(status) == 0);
  };
  for (const std::uint64_t mebibytes : {2, 30, 60, 90}) {
    EXPECT_EXIT(encode_within(mebibytes << 20), is_as_expected, "") << mebibytes;
  }
  EXPECT_EXIT(encode_within(std::uint64_t{16} << 20), ::testing::ExitedWithCode(7), "");
}

TEST(CheckpointMemory, OfAFileIsLittleMoreThanThatOfItsArrays) {
  EXPECT_EXIT(encode(), ::testing::ExitedWithCode(0), "");
}

TEST(CheckpointMemory, DoesNotGrowWithTheNumberOfCheckpoints) {
  const TemporaryDirectory directory;
  EXPECT_EXIT(write_twice(directory.path()), ::testing::ExitedWithCode(0), "");
}

TEST(CheckpointMemory, IsFreeAfterTheWrite) {
  const TemporaryDirectory directory;
  EXPECT_EXIT(write_once(directory.path()), ::testing::ExitedWithCode(0), "");
}

#endif

}  // namespace
}  // namespace carillon::testing
