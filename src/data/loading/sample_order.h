// SampleOrder: maps a position of the endless sample stream to a record number.
//
// With M records, position p belongs to epoch e = p / M. With shuffling, the record at position p is permutation(seed,
// e)[p % M]. Without shuffling, the record is p % M. The permutation is a Fisher-Yates shuffle that uses Philox4x32-10
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11), keyed by seed and epoch. Therefore the stream
// does not depend on earlier steps of the run. Without shares, the stream does not depend on the number of ranks
// either.
//
// With a window of W records, the epoch is first cut into runs of W / 16 neighbouring records. The runs are shuffled.
// Then each group of W consecutive records is shuffled. Therefore records that are read at the same time come from a
// few long ranges of the files.
//
// With shares, each rank has its own records and its own epochs. Each rank's records are ordered in the same way as
// described above.
//
// With groups, the order is a BalancedOrder. An epoch still has M positions, but it may contain a record several times
// or never.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace carillon {

// BalancedOrder: a sample order that draws from each group of records (for example the records of a class) equally
// often.
//
// With G groups, position p belongs to block b = p / G. Each block contains each group once: position p draws from
// group g = permutation(seed, b)[p % G]. Therefore b is also the number of earlier draws from group g. If the group has
// n records, position p draws record permutation(seed, b / n, g)[b % n] of the group. Therefore the draws from a group
// form passes of n draws, and each pass takes each record of the group once. As in SampleOrder, the record depends only
// on seed and position.
//
// Without shuffling, both permutations are 0, 1, 2, ...

/// Record numbers of each group, ascending.
using RecordGroups = std::vector<std::vector<std::uint32_t>>;

class BalancedOrder {
 public:
  /// Requires at least one group, and at least one record in each group.
  BalancedOrder(std::shared_ptr<const RecordGroups> groups, std::uint64_t seed, bool shuffle);

  /// Returns the record number at stream position `position`. Stores one permutation per group, which needs 4 bytes per
  /// record. Cost: O(1) if positions mostly increase and callers request at least G positions in a row, otherwise O(G)
  /// per change of block.
  std::uint32_t record_at(std::uint64_t position);

 private:
  struct Permutation {
    std::uint64_t number = 0;  ///< number of the block or of the pass
    std::vector<std::uint32_t> values = {};
  };
  std::uint32_t group_at(std::uint64_t position);

  std::shared_ptr<const RecordGroups> groups_;
  std::uint64_t seed_;
  bool shuffle_;
  Permutation block_;                ///< permutation of the last block
  std::vector<Permutation> passes_;  ///< permutation of the last pass, for each group
};

struct OrderSettings {
  std::uint64_t seed = 1;
  bool shuffle = true;
  std::uint64_t window = 0;  ///< records per window; 0: the whole epoch
  /// [rank] The first record of each rank's share; a share ends at the first record of the next share. Empty: there are
  /// no shares, and all ranks read all records.
  std::vector<std::uint64_t> shares = {};
  std::uint64_t tower_batch = 0;  ///< with shares: samples of each rank per global batch
  /// With shares: the stream position at which the first global batch starts; earlier positions are not allowed. If a
  /// run was resumed with another batch size, the origin need not be a multiple of the global batch.
  std::uint64_t origin = 0;
  /// If set, each group is drawn equally often (BalancedOrder); in this case, windows and shares are not allowed. Null:
  /// each record is drawn once per epoch.
  std::shared_ptr<const RecordGroups> groups = nullptr;
};

class SampleOrder {
 public:
  /// Requires 1 <= `record_count` < 2^32 and at least one record per share.
  SampleOrder(std::uint64_t record_count, OrderSettings settings);
  SampleOrder(std::uint64_t record_count, std::uint64_t seed, bool shuffle)
      : SampleOrder(record_count, OrderSettings{.seed = seed, .shuffle = shuffle}) {}

  /// Returns the record number at stream position `position`. Stores the permutations of the last two epochs. In the
  /// second half of a long epoch, a thread computes the next permutation. Cost: O(1) if positions mostly increase,
  /// otherwise O(record_count) at each change of epoch. Not thread-safe.
  std::uint64_t record_at(std::uint64_t position);
  /// Returns the record numbers at `position` and at the following positions.
  void records_at(std::uint64_t position, std::span<std::uint32_t> records);

  /// A window: the samples [begin, end) of a share's stream. These samples are shuffled together.
  struct Window {
    std::uint64_t share, begin, end;
  };
  bool shuffles() const { return settings_.shuffle; }
  bool has_windows() const { return settings_.window > 0; }
  /// Return the window that contains a stream position, and the window that follows another window. Both functions
  /// require has_windows().
  Window window_at(std::uint64_t position) const;
  Window window_after(const Window& window) const { return window_of(window.share, window.end); }
  /// Record numbers of the window, ascending.
  std::vector<std::uint32_t> records_in(const Window& window);

 private:
  struct Place {
    std::uint64_t share, sample;  ///< number of the sample in the stream of the share
    std::uint64_t run;            ///< number of stream positions, from this one on, that have consecutive samples
  };
  struct Epoch {
    std::uint64_t key;
    std::vector<std::uint32_t> permutation;
  };
  /// An epoch that a thread computes or has computed.
  struct ComingEpoch {
    std::uint64_t key = 0;
    std::future<std::vector<std::uint32_t>> permutation;

    ComingEpoch() = default;
    ComingEpoch(ComingEpoch&&) = default;
    ComingEpoch& operator=(ComingEpoch&&) = default;
    ComingEpoch(const ComingEpoch&) {}  // a copy of the order computes its own epochs
    ComingEpoch& operator=(const ComingEpoch&) { return *this = ComingEpoch(); }
    ~ComingEpoch() = default;
  };
  Place place_of(std::uint64_t position) const;
  std::uint64_t count_of(std::uint64_t share) const;
  Window window_of(std::uint64_t share, std::uint64_t sample) const;
  std::uint64_t record_of(const Place& place);
  /// Writes the numbers of the records from `place` on to the front of `records`. Returns how many numbers it has
  /// written, at least one.
  std::size_t fill_run(const Place& place, std::span<std::uint32_t> records);
  const Epoch& epoch(std::uint64_t share, std::uint64_t number);
  std::uint64_t key_of(std::uint64_t share, std::uint64_t number) const;
  void prepare(std::uint64_t share, std::uint64_t number);

  std::uint64_t record_count_;
  OrderSettings settings_;
  std::array<Epoch, 2> epochs_;
  ComingEpoch coming_;
  std::optional<BalancedOrder> balanced_;  ///< the order, if there are groups
};

}  // namespace carillon
