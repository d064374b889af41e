// Fuzzes record framing, plain and GZIP: any bytes either read as records or throw Error(data), within bounded memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "carillon/core/error.h"
#include "carillon/data/record.h"

namespace carillon {
namespace {

/// A file in memory, rewritten by every run.
class ScratchFile {
 public:
  ScratchFile() : descriptor_(::memfd_create("record_fuzzer", 0)) {}
  void assign(const std::uint8_t* data, std::size_t size) {
    if (::ftruncate(descriptor_, 0) != 0) std::abort();
    if (::pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

void read_all(const std::string& path, RecordCheck check) {
  try {
    RecordReader reader(path, check);
    std::uint64_t offset = 0, number = 0;
    for (Record record; reader.next(record);) {
      if (record.offset != offset || record.number != number++) std::abort();
      offset += record_header_bytes + record.data.size() + record_footer_bytes;
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
    if (!std::string_view(error.what()).starts_with(path + ": record ")) std::abort();
  }
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static carillon::ScratchFile file;
  file.assign(data, size);
  carillon::read_all(file.path(), carillon::RecordCheck::framing);
  carillon::read_all(file.path(), carillon::RecordCheck::data);
  // Random bytes hardly ever carry right checksums, so they are framed too: the record must come back.
  std::string framed;
  carillon::append_record(framed, std::as_bytes(std::span(data, size)));
  file.assign(reinterpret_cast<const std::uint8_t*>(framed.data()), framed.size());
  carillon::RecordReader reader(file.path());
  carillon::Record record;
  if (!reader.next(record) || !std::equal(record.data.begin(), record.data.end(), data, data + size)) std::abort();
  if (reader.next(record)) std::abort();
  return 0;
}
