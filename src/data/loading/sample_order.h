// SampleOrder: which record stands at position p of the endless sample stream.
//
// Position p of M records lies in epoch e = p / M; its record is permutation(seed, e)[p % M], or p % M unshuffled.
// The permutation is a Fisher-Yates shuffle driven by Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC'11), keyed by seed and epoch. So the stream depends on neither rank count nor history (but for
// shares).
//
// With a window of W records, the epoch is cut into runs of W / 16 records that are neighbours in the files, the runs
// are shuffled, and then each W records in a row are shuffled among themselves: what is read at a time lies in few
// places, each of them large.
//
// With shares, each tower has records of its own, in the same way, and goes through them at its own pace.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

namespace carillon {

struct OrderSettings {
  std::uint64_t seed = 1;
  bool shuffle = true;
  std::uint64_t window = 0;  ///< records; 0: the whole epoch
  /// By tower, the first record of its share, which goes to the next one's. Empty: all take of all records.
  std::vector<std::uint64_t> shares = {};
  std::uint64_t tower_batch = 0;  ///< with shares: samples that a tower takes of each global batch
  /// With shares: a stream position at which a global batch begins, and none before it is asked for. A run that went on
  /// with other batches has it off their multiples.
  std::uint64_t origin = 0;
};

class SampleOrder {
 public:
  /// `record_count` >= 1 and < 2^32; shares of a record at least.
  SampleOrder(std::uint64_t record_count, OrderSettings settings);
  SampleOrder(std::uint64_t record_count, std::uint64_t seed, bool shuffle)
      : SampleOrder(record_count, OrderSettings{.seed = seed, .shuffle = shuffle}) {}

  /// Record number at stream position `position`. Keeps the permutations of the two epochs used last, and has a thread
  /// make the next one from the middle of a long one on: O(1) when positions mostly grow, else O(record_count) when an
  /// epoch is entered. Not for use by two threads at once.
  std::uint64_t record_at(std::uint64_t position);
  /// Those at `position` and the ones behind it.
  void records_at(std::uint64_t position, std::span<std::uint32_t> records);

  /// The part of a share's stream, in samples of its own, whose records are shuffled among each other.
  struct Window {
    std::uint64_t share, begin, end;
  };
  bool shuffles() const { return settings_.shuffle; }
  bool has_windows() const { return settings_.window > 0; }
  /// That of a stream position, and the one after another. Require has_windows().
  Window window_at(std::uint64_t position) const;
  Window window_after(const Window& window) const { return window_of(window.share, window.end); }
  /// The numbers of its records, ascending.
  std::vector<std::uint32_t> records_in(const Window& window);

 private:
  struct Place {
    std::uint64_t share, sample;  ///< of the share's own
    std::uint64_t run;            ///< stream positions from here on whose samples follow each other
  };
  struct Epoch {
    std::uint64_t key;
    std::vector<std::uint32_t> permutation;
  };
  /// An epoch that a thread is making, or has made.
  struct ComingEpoch {
    std::uint64_t key = 0;
    std::future<std::vector<std::uint32_t>> permutation;

    ComingEpoch() = default;
    ComingEpoch(ComingEpoch&&) = default;
    ComingEpoch& operator=(ComingEpoch&&) = default;
    ComingEpoch(const ComingEpoch&) {}  // an order that is copied makes its own
    ComingEpoch& operator=(const ComingEpoch&) { return *this = ComingEpoch(); }
    ~ComingEpoch() = default;
  };
  Place place_of(std::uint64_t position) const;
  std::uint64_t count_of(std::uint64_t share) const;
  Window window_of(std::uint64_t share, std::uint64_t sample) const;
  std::uint64_t record_of(const Place& place);
  /// Fills the first of `records`, from the place on; how many: at least one.
  std::size_t fill_run(const Place& place, std::span<std::uint32_t> records);
  const Epoch& epoch(std::uint64_t share, std::uint64_t number);
  std::uint64_t key_of(std::uint64_t share, std::uint64_t number) const;
  void prepare(std::uint64_t share, std::uint64_t number);

  std::uint64_t record_count_;
  OrderSettings settings_;
  std::array<Epoch, 2> epochs_;
  ComingEpoch coming_;
};

}  // namespace carillon
