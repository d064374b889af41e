// Philox4x32-10: a counter-based random number generator (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC'11). A draw is a pure function of (key, counter), so it depends on neither order nor rank count.
#pragma once

#include <array>
#include <cstdint>

#include "carillon/core/host_device.h"

namespace carillon {

/// What a stream of draws is for; distinct purposes never share a counter.
enum class RandomPurpose : std::uint32_t { initializer = 1, sample_order = 2, augmentation = 3 };

struct Philox4x32 {
  std::uint32_t word[4];
};

/// Four independent uniform 32-bit words for `counter` under `key`.
CARILLON_HOST_DEVICE constexpr Philox4x32 philox4x32(std::uint64_t key, Philox4x32 counter) {
  constexpr std::uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;
  std::uint32_t key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = static_cast<std::uint64_t>(multiplier0) * counter.word[0];
    const std::uint64_t product1 = static_cast<std::uint64_t>(multiplier1) * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += weyl0;
    key1 += weyl1;
  }
  return counter;
}

/// The counter of draw block `block` at `index` (a stream position, an epoch's slot, a variable's element) of
/// `purpose`.
CARILLON_HOST_DEVICE constexpr Philox4x32 philox_counter(RandomPurpose purpose, std::uint64_t index,
                                                         std::uint32_t block) {
  return {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), block,
           static_cast<std::uint32_t>(purpose)}};
}

/// A uniform float in [0, 1) with 24 random bits.
CARILLON_HOST_DEVICE constexpr float uniform_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

}  // namespace carillon
