#include "src/data/download/sha256.h"

#include <fmt/format.h>

#include <array>
#include <new>

#include "carillon/core/error.h"

namespace carillon {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_) throw std::bad_alloc();
  check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has no SHA-256");
}

void Sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "OpenSSL's SHA-256 failed");
}

std::string Sha256::digits() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(context_.get(), sum.data(), &size) == 1, "OpenSSL's SHA-256 failed");
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

}  // namespace carillon
