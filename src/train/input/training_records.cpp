#include "src/train/input/training_records.h"

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"
#include "src/core/memory.h"
#include "src/core/text.h"
#include "src/report/console.h"
#include "src/train/input/record_targets.h"

namespace carillon {
namespace {

Dataset open(const DataOptions& data, RecordOptions records, const Mpi& mpi) {
  records.by_file = data.sharding == Sharding::file;
  records.skips_damaged = data.skip_damaged;
  if (data.skip_damaged || records.by_file) records.cache = CacheMode::none;
  return open_records(data.files, data.record_form, RecordUse::training, records, mpi);
}

}  // namespace

TrainingRecords::TrainingRecords(const TrainOptions& options, RecordOptions records, int decode_threads, const Mpi& mpi)
    : options_(options),
      mpi_(mpi),
      decode_threads_(decode_threads),
      heartbeat_(records.heartbeat),
      dataset_(open(options.data, std::move(records), mpi)) {
  const DataOptions& data = options_.data;
  mpi_.run_on_all([&] {
    if (data.sharding == Sharding::file) order_.shares = dataset_.shares_of_files(mpi_.size());
    check_prefetch_bytes();
  });
  order_.seed = options_.model.seed;
  order_.shuffle = data.shuffle;
  order_.window = static_cast<std::uint64_t>(data.shuffle_window);
  order_.tower_batch = static_cast<std::uint64_t>(data.batch_size);
  warn_of_reading();
  if (!data.skip_damaged || dataset_.in_memory()) return;
  dataset_.skip_damaged([rank = mpi_.rank()](const std::string& what) {
    print_warning(fmt::format("rank {}: skipped: {}", rank, what));
  });
}

void TrainingRecords::use_targets(Task& task) {
  const bool balances = options_.data.sampling == Sampling::balanced;
  if (!task.loss_of_records && !balances) return;
  const RecordTargets found =
      read_targets(dataset_, {.shares = order_.shares, .thread_count = decode_threads_, .heartbeat = heartbeat_}, mpi_);
  mpi_.run_on_all([&] {
    if (task.loss_of_records) task.loss = task.loss_of_records(found.targets);
    if (balances) order_.groups = records_by_group(found, task.group_of);
  });
}

BatchLoader TrainingRecords::loader_from(std::uint64_t stream_position) {
  const auto batch = static_cast<std::uint64_t>(options_.data.batch_size);
  order_.origin = stream_position;
  return BatchLoader(dataset_, SampleOrder(dataset_.size(), order_),
                     StreamSlice{.start = stream_position,
                                 .global_batch = batch * mpi_.size(),
                                 .tower_offset = batch * mpi_.rank(),
                                 .batch_size = static_cast<std::size_t>(batch)},
                     prefetch());
}

std::string TrainingRecords::name_at(std::uint64_t stream_position) const {
  SampleOrder order(dataset_.size(), order_);
  return dataset_.name_of(order.record_at(stream_position));
}

void TrainingRecords::warn_of_reading() const {
  if (mpi_.rank() != 0) return;
  const bool one_host = mpi_.local_size() == mpi_.size();
  if (order_.window > 0 && order_.shares.empty() && options_.data.stage.empty() && !one_host && !dataset_.in_memory()) {
    print_warning("--shuffle-window: each host reads all files; with --sharding file or --stage it reads less");
  }
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < order_.shares.size(); ++i) {
    counts.push_back((i + 1 < order_.shares.size() ? order_.shares[i + 1] : dataset_.size()) - order_.shares[i]);
  }
  const auto [least, most] = std::ranges::minmax_element(counts);
  if (counts.empty() || *most <= *least + *least / 10) return;
  print_warning(fmt::format(
      "--sharding file: the files of a rank have {} to {} records; a rank with fewer uses each of them more often",
      *least, *most));
}

void TrainingRecords::check_prefetch_bytes() const {
  if (dataset_.in_memory() || options_.data.prefetch_bytes == 0) return;
  const auto limit = static_cast<std::uint64_t>(options_.data.prefetch_bytes), memory = total_memory_bytes();
  const std::uint64_t two_batches = 2 * static_cast<std::uint64_t>(options_.data.batch_size) * dataset_.image_bytes();
  if (limit < two_batches) {
    fail(ExitCode::usage, "--prefetch-bytes {}: two batches of decoded images have {} bytes: increase it", limit,
         two_batches);
  }
  const auto ranks = static_cast<std::uint64_t>(mpi_.local_size());
  if (limit <= memory / ranks) return;
  fail(ExitCode::usage, "--prefetch-bytes {}: {} has {} bytes of memory for {}", limit, mpi_.host(), memory,
       count_text(ranks, "rank"));
}

PrefetchSettings TrainingRecords::prefetch() const {
  PrefetchSettings settings{.thread_count = decode_threads_,
                            .bytes = static_cast<std::size_t>(options_.data.prefetch_bytes),
                            .heartbeat = heartbeat_};
  // The ranks of a host take samples from the whole of each window.
  if (options_.data.sharding == Sharding::record) {
    settings.part = {static_cast<std::size_t>(mpi_.local_rank()), static_cast<std::size_t>(mpi_.local_size())};
  }
  return settings;
}

}  // namespace carillon
