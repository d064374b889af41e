// Fuzzes the files .lock and .heartbeat, which a second run in the same train directory reads. For any content, the
// second run must end with one printable line, which contains at most 512 bytes of the file .lock.
#include <sys/file.h>

#include <thread>

#include "src/checkpoint/directory_lock.h"
#include "src/core/text.h"
#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

bool is_one_line(std::string_view shown) {
  return std::ranges::none_of(shown, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// Returns the line that names the holder of a directory, if the file .lock contains `bytes` and is locked.
std::string holder_by_lock(const ScratchDirectory& directory, std::span<const std::byte> bytes) {
  const std::string path = directory.write(".lock", bytes);
  const Descriptor held(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  fuzz_check(::flock(held.get(), LOCK_EX | LOCK_NB) == 0);
  std::string line;
  try {
    const DirectoryLock lock(directory.path(""));
    fuzz_check(false);
  } catch (const Error& error) {
    fuzz_check(error.code() == ExitCode::usage);
    line = error.what();
  }
  return line;
}

/// Returns the holder that Heartbeat::holder finds. Meanwhile, another thread writes the file again and again. It
/// alternates between `text`, and `text` after a line "a".
std::string holder_by_heartbeat(const ScratchDirectory& directory, const std::string& text) {
  using std::chrono::milliseconds;
  const std::string path = directory.write(".heartbeat", std::as_bytes(std::span(text)));
  const std::jthread writer([&](const std::stop_token& stop) {
    for (bool longer = true; !stop.stop_requested(); longer = !longer) {
      const std::string now = longer ? "a\n" + text : text;
      directory.write(".heartbeat", std::as_bytes(std::span(now)));
    }
  });
  return Heartbeat::holder(path, {.interval = milliseconds(0), .limit = milliseconds(1)});
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  static const ScratchDirectory directory, beating;
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string line = holder_by_lock(directory, bytes);
  fuzz_check(line.size() < 1024 && is_one_line(printable(line)));
  if (size % 16 != 0) return 0;  // the code below is slow, so only some inputs run it
  fuzz_check(is_one_line(printable(holder_by_heartbeat(beating, std::string(data, data + size)))));
  return 0;
}
