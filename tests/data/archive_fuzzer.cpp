// Fuzzes the archives that tfrecord_convert reads: tar, plain or compressed. There are two permitted results. The
// reader may reject an input with a line that names the file. Otherwise each member of the archive must have its
// declared size, and this size must not exceed the given bound.
//
// After a mutation of a plain archive, the fuzzer corrects the checksums in the headers.
#include "src/data/convert/source_file.h"

#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

constexpr std::uint64_t max_bytes = std::uint64_t{1} << 20;
constexpr std::size_t block_bytes = 512;

void put_checksum(std::uint8_t* header) {
  constexpr std::size_t at = 148, count = 8;
  std::fill_n(header + at, count, std::uint8_t{' '});
  unsigned sum = 0;
  for (std::size_t i = 0; i < block_bytes; ++i) sum += header[i];
  fmt::format_to_n(header + at, count, "{:06o}\0", sum);
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  static const ScratchFile file;
  file.assign(std::as_bytes(std::span(data, size)));
  accepted(file.path() + ": ", [] {
    ArchiveReader archive(file.path(), max_bytes);
    std::uint64_t total_bytes = 0;
    for (ArchiveMember member; archive.next(member);) {
      total_bytes += member.bytes;
      fuzz_check(total_bytes <= max_bytes);
      if (member.is_file) fuzz_check(archive.content().size() == member.bytes);
    }
    return 0;
  });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 == 0 || size < carillon::block_bytes) return size;
  for (std::size_t at = 0; at + carillon::block_bytes <= size; at += carillon::block_bytes) {
    const std::string_view magic(reinterpret_cast<const char*>(data) + at + 257, 5);
    if (magic == "ustar") carillon::put_checksum(data + at);
  }
  return size;
}
