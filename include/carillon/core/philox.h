// Philox4x32-10: a counter-based random number generator (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC'11). A draw is a pure function of (key, counter), so it does not depend on the order of the draws or
// on the number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "carillon/core/host_device.h"

namespace carillon {

/// The purpose of random numbers. Different purposes never use the same counter.
enum class RandomPurpose : std::uint32_t {
  initializer = 1,
  sample_order = 2,
  augmentation = 3,
  variable_name = 4,
  dropout = 7,
  mirroring = 8,
  mixing = 9,
  warping = 10,
  cropping = 11,
  synthetic = 12,
  rand_augment = 22,
  erasing = 23,
  orientation = 24,
  color_jitter = 25,
  group_order = 20,
  group_records = 21,
};

struct Philox4x32 {
  std::uint32_t word[4];
};

/// Returns four independent, uniformly distributed 32-bit words for `counter` under `key`.
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

/// Returns the counter for block number `block` (four words) of the random numbers for `purpose` and `index`. `index`
/// is, for example, a stream position, or the number of an epoch, of a variable's element or of a record.
CARILLON_HOST_DEVICE constexpr Philox4x32 philox_counter(RandomPurpose purpose, std::uint64_t index,
                                                         std::uint32_t block) {
  return {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), block,
           static_cast<std::uint32_t>(purpose)}};
}

/// Returns the key of the random numbers for an object with this name, such as a variable. Uses the 64-bit FNV-1a hash
/// of the name (Fowler, Noll, Vo).
constexpr std::uint64_t philox_key_of(std::uint64_t seed, RandomPurpose purpose, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  const Philox4x32 key = philox4x32(seed, philox_counter(purpose, hash, 0));
  return static_cast<std::uint64_t>(key.word[1]) << 32 | key.word[0];
}

/// Returns a uniform float in [0, 1) with 24 random bits.
CARILLON_HOST_DEVICE constexpr float uniform_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// Draws the random words for one `purpose` and `index`, one after another.
class PhiloxDraws {
 public:
  CARILLON_HOST_DEVICE constexpr PhiloxDraws(std::uint64_t key, RandomPurpose purpose, std::uint64_t index)
      : key_(key), index_(index), purpose_(purpose) {}

  CARILLON_HOST_DEVICE constexpr std::uint32_t word() {
    if (used_ == 4) {
      block_words_ = philox4x32(key_, philox_counter(purpose_, index_, block_++));
      used_ = 0;
    }
    return block_words_.word[used_++];
  }

  /// Uniform in [0, bound), without bias (Lemire, "Fast random integer generation in an interval", 2019).
  CARILLON_HOST_DEVICE constexpr std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{word()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      // surplus: 2^32 mod bound. The loop draws again as long as the lower half of the product is below `surplus`.
      const std::uint32_t surplus = (0u - bound) % bound;
      while (static_cast<std::uint32_t>(product) < surplus) product = std::uint64_t{word()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  /// Uniform in [low, high), with 53 random bits.
  constexpr double uniform(double low, double high) {
    const std::uint64_t high_word = word(), low_word = word();  // two statements, because the order of the two draws
                                                                // must be fixed
    const std::uint64_t bits = high_word << 21 ^ low_word >> 11;
    return low + (high - low) * static_cast<double>(bits) * 0x1p-53;
  }

 private:
  std::uint64_t key_, index_;
  RandomPurpose purpose_;
  std::uint32_t block_ = 0;
  Philox4x32 block_words_{};
  int used_ = 4;
};

}  // namespace carillon
