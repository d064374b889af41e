#include "src/train/diagnosis/replica_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/device/device.h"
#include "src/core/crc32c.h"
#include "src/core/text.h"
#include "src/device/cpu_device.h"
#include "src/train/control/agreement.h"

namespace carillon {
namespace {

/// Ranks with equal values.
using Side = std::vector<std::size_t>;

/// Returns, for example, "rank 2 on n1" or "ranks 2, 3 on n1, n2".
std::string text_of(const Side& side, std::span<const std::string> hosts) {
  std::vector<std::string> of_side;
  for (const std::size_t rank : side) {
    if (std::ranges::find(of_side, hosts[rank]) == of_side.end()) of_side.push_back(hosts[rank]);
  }
  return fmt::format("rank{} {} on {}", side.size() == 1 ? "" : "s", fmt::join(side, ", "), fmt::join(of_side, ", "));
}

/// Puts ranks with equal checksums of one array into one group. The groups are in the order of their lowest ranks.
std::vector<Side> sides_of(std::size_t array, std::span<const std::vector<std::uint32_t>> checksums) {
  std::vector<Side> sides;
  std::map<std::uint32_t, std::size_t> numbers;
  for (std::size_t rank = 0; rank < checksums.size(); ++rank) {
    const auto [number, is_new] = numbers.try_emplace(checksums[rank][array], sides.size());
    if (is_new) sides.emplace_back();
    sides[number->second].push_back(rank);
  }
  return sides;
}

std::string text_of(std::vector<Side> sides, std::size_t rank_count, std::span<const std::string> hosts) {
  const auto largest = std::ranges::max_element(sides, {}, &Side::size);
  const std::size_t majority = largest->size();
  if (2 * majority > rank_count) {
    sides.erase(largest);
    Side others;
    for (const Side& side : sides) others.insert(others.end(), side.begin(), side.end());
    std::ranges::sort(others);
    return fmt::format("{} differ{} from the other {}", text_of(others, hosts), others.size() == 1 ? "s" : "",
                       majority);
  }
  std::vector<std::string> texts;
  for (const Side& side : sides) texts.push_back(text_of(side, hosts));
  return fmt::format("{} differ{} from {}", texts.front(), sides.front().size() == 1 ? "s" : "",
                     fmt::join(texts.begin() + 1, texts.end(), " and from "));
}

/// The checksums of one rank.
struct ArrayChecksums {
  std::vector<std::string> names;
  std::vector<std::uint32_t> checksums;

  /// Adds the checksum of each parameter's part of the flat array `array`. `kind`: kind of the values in the array.
  void add(std::string_view kind, std::span<float> array, const ParameterStore& parameters, Device& device) {
    std::vector<float> copy;
    const auto values = host_floats(device, {array.data(), {static_cast<std::int64_t>(array.size())}}, copy);
    const ParameterLayout& layout = parameters.layout();
    for (std::size_t i = 0; i < parameters.specs().size(); ++i) {
      const int parameter = static_cast<int>(i);
      names.push_back(fmt::format("{} {}", kind, parameters.specs()[i].name));
      checksums.push_back(crc32c(std::as_bytes(values.subspan(layout.offset(parameter), layout.count(parameter)))));
    }
  }
};

ArrayChecksums checksums_of(const Tower& tower, Device& device) {
  const ParameterStore& parameters = tower.parameters();
  ArrayChecksums of_tower;
  of_tower.add("variable", parameters.values(), parameters, device);
  if (!tower.replicates_slots()) return of_tower;
  for (std::size_t slot = 0; slot < tower.slots().size(); ++slot) {
    of_tower.add(tower.slots()[slot].name + " of", tower.slot(static_cast<int>(slot)), parameters, device);
  }
  return of_tower;
}

}  // namespace

std::string replica_difference(std::int64_t step, std::span<const std::string> names,
                               std::span<const std::vector<std::uint32_t>> checksums,
                               std::span<const std::string> hosts) {
  for (std::size_t array = 0; array < names.size(); ++array) {
    const std::vector<Side> sides = sides_of(array, checksums);
    if (sides.size() == 1) continue;
    return fmt::format("{} after step {}: {}", names[array], step, text_of(sides, checksums.size(), hosts));
  }
  return {};
}

void check_replicas(std::int64_t step, const Tower& tower, Device& device, const Mpi& mpi) {
  if (mpi.size() == 1) return;
  const ArrayChecksums own = checksums_of(tower, device);
  const std::size_t bytes = own.checksums.size() * sizeof(std::uint32_t);
  const std::vector<std::string> texts = mpi.all_gather({reinterpret_cast<const char*>(own.checksums.data()), bytes});
  if (std::ranges::count(texts, texts.front()) == mpi.size()) return;
  std::vector<std::vector<std::uint32_t>> of_all(texts.size(), std::vector<std::uint32_t>(own.checksums.size()));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::memcpy(of_all[rank].data(), texts[rank].data(), bytes);
  }
  fail_on_all(mpi, ExitCode::failed, replica_difference(step, own.names, of_all, mpi.all_gather(mpi.host())));
}

namespace {

constexpr std::size_t max_named_pairs = 4;

/// A batch that another rank has sent.
class ReceivedBatch {
 public:
  /// `bytes`: the result of bytes_of on the rank that sent the batch.
  ReceivedBatch(std::vector<std::byte> bytes, std::size_t image_bytes) : bytes_(std::move(bytes)) {
    Header header;
    std::memcpy(&header, bytes_.data(), sizeof(header));
    first_position_ = header.first_position;
    const std::byte* place = bytes_.data() + sizeof(header);
    records_.resize(header.records);
    std::memcpy(records_.data(), place, records_.size() * sizeof(records_[0]));
    place += records_.size() * sizeof(records_[0]);
    for (std::size_t i = 0; i < header.images; ++i, place += image_bytes) {
      images_.push_back(reinterpret_cast<const std::uint8_t*>(place));
    }
    targets_ = {place, header.target_bytes};
  }
  Batch batch() const {
    return {.images = images_, .targets = targets_, .records = records_, .first_position = first_position_};
  }

  /// Returns the bytes of a batch without padding.
  static std::vector<std::byte> bytes_of(const Batch& batch, std::size_t image_bytes) {
    const Header header{batch.first_position, batch.images.size(), batch.records.size(), batch.targets.size()};
    std::vector<std::byte> bytes;
    bytes.reserve(sizeof(header) + batch.records.size_bytes() + batch.images.size() * image_bytes +
                  batch.targets.size());
    const auto add = [&bytes](const void* from, std::size_t count) {
      const auto* const first = static_cast<const std::byte*>(from);
      bytes.insert(bytes.end(), first, first + count);
    };
    add(&header, sizeof(header));
    add(batch.records.data(), batch.records.size_bytes());
    for (const std::uint8_t* image : batch.images) add(image, image_bytes);
    add(batch.targets.data(), batch.targets.size());
    return bytes;
  }

 private:
  /// The header of a sent batch. The records, the images and the targets follow the header.
  struct Header {
    std::uint64_t first_position = 0, images = 0, records = 0, target_bytes = 0;
  };

  std::vector<std::byte> bytes_;
  std::vector<const std::uint8_t*> images_;
  std::vector<std::uint32_t> records_;
  std::span<const std::byte> targets_;
  std::uint64_t first_position_ = 0;
};

std::string_view text_of(const GradientChecksums& checksums) {
  return {reinterpret_cast<const char*>(checksums.data()), checksums.size() * sizeof(checksums[0])};
}

/// Returns the checksums of all ranks, by rank.
std::vector<GradientChecksums> gathered(const GradientChecksums& own, const Mpi& mpi) {
  std::vector<GradientChecksums> all;
  for (const std::string& text : mpi.all_gather(text_of(own))) {
    all.emplace_back(own.size());
    std::memcpy(all.back().data(), text.data(), text.size());
  }
  return all;
}

std::string rounding_key(Device& device, Arithmetic arithmetic) {
  const CpuDevice& cpu = as_cpu(device);
  return fmt::format("{} {}", static_cast<int>(rounding_isa(cpu.isa(), arithmetic)), cpu.thread_count());
}

}  // namespace

std::vector<int> audited_ranks(std::span<const std::string> rounding_keys) {
  const int count = static_cast<int>(rounding_keys.size());
  std::vector<int> audited;
  for (int rank = 0; rank < count; ++rank) {
    int before = rank;
    do {
      before = (before + count - 1) % count;
    } while (rounding_keys[before] != rounding_keys[rank]);
    audited.push_back(before);
  }
  return audited;
}

std::string audit_difference(std::int64_t step, std::span<const std::string> variables,
                             std::span<const GradientChecksums> in_step, std::span<const GradientChecksums> in_audit,
                             std::span<const int> audited, std::span<const std::string> rank_names) {
  std::vector<std::string> pairs;
  for (std::size_t rank = 0; rank < audited.size(); ++rank) {
    const auto of = static_cast<std::size_t>(audited[rank]);
    const auto differs = std::ranges::mismatch(in_step[of], in_audit[rank]).in1;
    if (differs == in_step[of].end()) continue;
    const std::string& variable = variables[static_cast<std::size_t>(differs - in_step[of].begin())];
    pairs.push_back(of == rank
                        ? fmt::format("{} computed two different gradients of variable {}", rank_names[of], variable)
                        : fmt::format("{} and {} computed different gradients of variable {}", rank_names[of],
                                      rank_names[rank], variable));
  }
  if (pairs.empty()) return {};
  if (pairs.size() > max_named_pairs) {
    const std::size_t more = pairs.size() - max_named_pairs;
    pairs.resize(max_named_pairs);
    pairs.push_back(fmt::format("and {}", count_text(more, "further pair")));
  }
  return fmt::format("the audit of step {} failed: {}; check the processors and the memory of these hosts", step,
                     fmt::join(pairs, "; "));
}

Audit::Audit(Tower& tower, Device& device, const Mpi& mpi, std::function<void()> heartbeat)
    : tower_(tower),
      mpi_(mpi),
      heartbeat_(std::move(heartbeat)),
      rank_names_(mpi.all_gather(fmt::format("rank {} on {}", mpi.rank(), mpi.host()))),
      audited_(audited_ranks(mpi.all_gather(rounding_key(device, tower.graph().arithmetic())))) {
  for (const ParameterSpec& spec : tower_.parameters().specs()) variables_.push_back(spec.name);
  auditor_ = static_cast<int>(std::ranges::find(audited_, mpi.rank()) - audited_.begin());
}

void Audit::step(StepRequest request) {
  mpi_.barrier();  // all ranks have completed the previous step
  const std::size_t image_bytes = tower_.network().image.bytes();
  const std::vector<std::byte> own = ReceivedBatch::bytes_of(request.batch, image_bytes);
  const ReceivedBatch received(mpi_.sendrecv(own, auditor_, audited_[mpi_.rank()]), image_bytes);
  const GradientChecksums in_audit = tower_.gradient_checksums(request.step, received.batch(), audited_);
  heartbeat_();
  GradientChecksums in_step;
  request.gradient_complete = tower_.storing_in(in_step);
  tower_.step(request);
  const std::string difference = audit_difference(request.step, variables_, gathered(in_step, mpi_),
                                                  gathered(in_audit, mpi_), audited_, rank_names_);
  if (!difference.empty()) fail_on_all(mpi_, ExitCode::failed, difference);
}

}  // namespace carillon
