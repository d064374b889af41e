// Sha256: the checksum SHA-256 (FIPS 180-4) of bytes that arrive in pieces, computed by OpenSSL's libcrypto.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <span>
#include <string>

#include "carillon/core/handle.h"

namespace carillon {

class Sha256 {
 public:
  Sha256();

  void update(std::span<const std::byte> bytes);
  /// The checksum as 64 hexadecimal digits. Call it once, after the last `update`.
  std::string digits();

 private:
  Handle<EVP_MD_CTX*, EVP_MD_CTX_free> context_;
};

}  // namespace carillon
