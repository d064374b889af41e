// GzipStream: decompresses GZIP data (RFC 1952) of one or more consecutive members.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "src/data/records/byte_input.h"

namespace carillon {

/// Whether `data` starts with GZIP's magic bytes, 1f 8b.
bool is_gzip(std::span<const std::byte> data);

class GzipStream {
 public:
  explicit GzipStream(ByteInput compressed);
  GzipStream(GzipStream&&) noexcept;
  GzipStream& operator=(GzipStream&&) noexcept;
  ~GzipStream();

  /// Decompresses into `out` and returns the number of bytes written. The number is less than requested only at the end
  /// or before damage, and 0 at the end. The bytes before damage are returned first; the next call throws. Errors:
  /// data, without the file's name; errors of the input.
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carillon
