// Fuzzes record framing, plain and GZIP. Any bytes must either be read as records or be rejected with Error(data), with
// bounded memory. If the fuzzer frames the records again, the result must equal the input.
//
// After a mutation of a plain file, the fuzzer corrects the checksums, so that the input reaches the code after the
// checksum tests.
#include <cstring>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/record.h"
#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

/// Reads the records of the file and frames them again. Returns nullopt if the reader rejects the file.
std::optional<std::string> framed_records(const std::string& path, RecordCheck check) {
  return accepted(path + ": record ", [&] {
    RecordReader reader(path, check);
    std::string framed;
    std::uint64_t number = 0;
    for (Record record; reader.next(record);) {
      fuzz_check(record.offset == framed.size() && record.number == number++);
      append_record(framed, std::as_bytes(record.data));
      std::memcpy(framed.data() + framed.size() - record_footer_bytes, &record.stored_crc, record_footer_bytes);
    }
    return framed;
  });
}

/// Reads the offsets and sizes of the records without their data. They must equal the offsets and sizes that reading
/// the records returns, and reading a record again at its offset must succeed.
void check_places(const std::string& path) {
  accepted(path + ": record ", [&] {
    RecordReader reader(path, RecordCheck::framing), again(path, RecordCheck::framing);
    std::vector<std::uint8_t> buffer;
    Record record;
    for (RecordPlace place; reader.next_place(place);) {
      fuzz_check(again.next(record));
      fuzz_check(place.number == record.number && place.offset == record.offset);
      fuzz_check(place.data_bytes == record.data.size() && place.stored_crc == record.stored_crc);
      if (!reader.gzip()) reader.read_again(place, buffer);
    }
    fuzz_check(!again.next(record));
    return 0;
  });
}

/// Parses `file` as a sequence of records, and corrects the checksums of these records.
void put_checksums(std::span<std::byte> file) {
  constexpr std::size_t length_bytes = 8;
  while (file.size() >= record_header_bytes + record_footer_bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), length_bytes);
    const std::uint32_t length_crc = masked_crc32c(file.first(length_bytes));
    std::memcpy(file.data() + length_bytes, &length_crc, sizeof length_crc);
    if (length > file.size() - record_header_bytes - record_footer_bytes) return;
    const auto record = file.subspan(record_header_bytes, length + record_footer_bytes);
    const std::uint32_t data_crc = masked_crc32c(record.first(length));
    std::memcpy(record.data() + length, &data_crc, sizeof data_crc);
    file = file.subspan(record_header_bytes + record.size());
  }
}

bool is_gzip(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{0x1F} && file[1] == std::byte{0x8B};
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  static const ScratchFile file;
  const auto bytes = std::as_bytes(std::span(data, size));
  file.assign(bytes);
  const auto framed = framed_records(file.path(), RecordCheck::framing);
  if (framed && !is_gzip(bytes)) fuzz_check(std::ranges::equal(std::as_bytes(std::span(*framed)), bytes));
  const auto checked = framed_records(file.path(), RecordCheck::data);
  if (checked) fuzz_check(checked == framed);
  check_places(file.path());
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  const auto file = std::as_writable_bytes(std::span(data, size));
  if (seed % 4 != 0 && !carillon::is_gzip(file)) carillon::put_checksums(file);
  return size;
}
