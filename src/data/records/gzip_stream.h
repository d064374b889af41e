// GzipStream: the inflated bytes of GZIP data (RFC 1952), one member or several one after the other.
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

  /// Inflates into `out` and returns the bytes written: fewer than asked for only at the end or before damage, 0 at the
  /// end. What precedes damage is delivered first; the call after that throws. Errors: data, without the file's name;
  /// those of its input.
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carillon
