#include "src/data/convert/libarchive.h"

#include <cerrno>
#include <utility>

namespace carillon {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{64} << 10;

}  // namespace

ArchiveInput::ArchiveInput(ByteInput input) : input_(std::move(input)), buffer_(buffer_bytes) {}

bool ArchiveInput::open(archive* reader) {
  return archive_read_open(reader, this, nullptr, read_more, nullptr) == ARCHIVE_OK;
}

/// Callback of libarchive: returns the next bytes, 0 at the end, -1 after an error.
la_ssize_t ArchiveInput::read_more(archive* from, void* self, const void** bytes) {
  auto& input = *static_cast<ArchiveInput*>(self);
  try {
    *bytes = input.buffer_.data();
    return static_cast<la_ssize_t>(input.input_(input.buffer_));
  } catch (...) {
    input.error_ = std::current_exception();
    archive_set_error(from, EIO, "cannot read the file");
    return -1;
  }
}

void ArchiveInput::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

}  // namespace carillon
