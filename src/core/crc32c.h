// CRC32C: the Castagnoli checksum (RFC 3720, appendix B.4) that TFRecord files and checkpoints carry.
//
// crc32c("123456789") = 0xE3069283. Computed by ISA-L, 40 GB/s on one core; of a few bytes by SSE 4.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace carillon {

/// CRC32C of `data`. With `seed` = crc32c(a), crc32c(b, seed) is that of a followed by b.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t seed = 0);

}  // namespace carillon
