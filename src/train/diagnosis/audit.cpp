#include "src/train/diagnosis/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/device/device.h"
#include "src/core/text.h"
#include "src/device/cpu_device.h"
#include "src/train/control/agreement.h"

namespace carillon {
namespace {

constexpr std::size_t max_named_pairs = 4;

/// A batch that another rank has sent.
class ReceivedBatch {
 public:
  /// The bytes that `bytes_of` returned on that rank.
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

  /// The bytes of a batch without padding.
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
  /// The header of a sent batch. After it follow the records, the images and the targets.
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

/// By rank.
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
