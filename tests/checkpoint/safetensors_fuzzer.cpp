// libFuzzer target: for any file, the reader of safetensors must neither crash nor read beyond the data. If it rejects
// the file, it must report one line and exit code 65. In half of the mutations, the target corrects the stored length
// of the header.
#include <cstring>

#include "src/checkpoint/array_files.h"
#include "tests/support/fuzzing.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace carillon {
namespace {

void load(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
    std::uint64_t at = 0;
    for (const SafetensorsEntry& entry : file.entries()) {
      fuzz_check(entry.begin == at && entry.end >= at);
      at = entry.end;
      std::uint64_t count = 1;
      for (const std::int64_t extent : entry.shape) count *= static_cast<std::uint64_t>(extent);
      if (entry.type != "F32" && entry.type != "F16" && entry.type != "BF16") continue;
      fuzz_check(file.read(entry).values.size() == count);
    }
  } catch (const Error& error) {
    fuzz_check(error.code() == ExitCode::data);
    fuzz_check(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const carillon::ScratchDirectory directory;
  carillon::load(directory.write("a.safetensors", std::as_bytes(std::span(data, size))));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  // In all seeds, the header ends with this byte.
  const void* const end = size > 8 ? std::memchr(data + 8, '\n', size - 8) : nullptr;
  if (end == nullptr || seed % 2 == 0) return size;
  const std::uint64_t header = static_cast<const std::uint8_t*>(end) + 1 - (data + 8);
  std::memcpy(data, &header, sizeof header);
  return size;
}
