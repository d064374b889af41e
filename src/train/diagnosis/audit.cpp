#include "src/train/diagnosis/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"
#include "src/train/control/equal_on_all_ranks.h"

namespace carillon {
namespace {

/// A batch that another rank has sent.
class ReceivedBatch {
 public:
  /// The bytes of `bytes_of`.
  ReceivedBatch(std::vector<std::byte> bytes, std::size_t image_bytes, std::size_t target_bytes)
      : bytes_(std::move(bytes)) {
    const std::size_t images = bytes_.size() - sizeof(first_position_);
    const std::size_t count = images / (image_bytes + target_bytes);
    std::memcpy(&first_position_, bytes_.data(), sizeof(first_position_));
    const std::byte* const first = bytes_.data() + sizeof(first_position_);
    for (std::size_t i = 0; i < count; ++i) {
      images_.push_back(reinterpret_cast<const std::uint8_t*>(first + i * image_bytes));
    }
    targets_ = {first + count * image_bytes, count * target_bytes};
  }
  Batch batch() const { return {.images = images_, .targets = targets_, .first_position = first_position_}; }

  static std::vector<std::byte> bytes_of(const Batch& batch, std::size_t image_bytes) {
    std::vector<std::byte> bytes(sizeof(batch.first_position) + batch.size() * image_bytes + batch.targets.size());
    std::byte* to = bytes.data();
    const auto add = [&to](const void* from, std::size_t count) {
      std::memcpy(to, from, count);
      to += count;
    };
    add(&batch.first_position, sizeof(batch.first_position));
    for (const std::uint8_t* image : batch.images) add(image, image_bytes);
    if (!batch.targets.empty()) add(batch.targets.data(), batch.targets.size());
    return bytes;
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<const std::uint8_t*> images_;
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

std::string kernels_of(Device& device) {
  return fmt::format("{} {}", static_cast<int>(as_cpu(device).isa()), device.workers().size());
}

}  // namespace

std::vector<int> audited_ranks(std::span<const std::string> kernels) {
  const int count = static_cast<int>(kernels.size());
  std::vector<int> audited;
  for (int rank = 0; rank < count; ++rank) {
    int before = rank;
    do {
      before = (before + count - 1) % count;
    } while (kernels[before] != kernels[rank]);
    audited.push_back(before);
  }
  return audited;
}

std::string audit_difference(std::int64_t step, std::span<const std::string> variables,
                             std::span<const GradientChecksums> taken, std::span<const GradientChecksums> computed,
                             std::span<const int> audited, std::span<const std::string> places) {
  std::vector<std::string> pairs;
  for (std::size_t rank = 0; rank < audited.size(); ++rank) {
    const auto of = static_cast<std::size_t>(audited[rank]);
    const auto differs = std::ranges::mismatch(taken[of], computed[rank]).in1;
    if (differs == taken[of].end()) continue;
    const std::string& variable = variables[static_cast<std::size_t>(differs - taken[of].begin())];
    pairs.push_back(of == rank ? fmt::format("{} computed {} twice", places[of], variable)
                               : fmt::format("{} and {} computed {}", places[of], places[rank], variable));
  }
  if (pairs.empty()) return {};
  return fmt::format(
      "the audit of step {} found different gradients of the same batch: {}; check the processors and the "
      "memory of these hosts",
      step, fmt::join(pairs, "; "));
}

Audit::Audit(Tower& tower, Device& device, const Mpi& mpi)
    : tower_(tower), mpi_(mpi), audited_(audited_ranks(mpi.all_gather(kernels_of(device)))) {
  auditor_ = static_cast<int>(std::ranges::find(audited_, mpi.rank()) - audited_.begin());
}

void Audit::step(TowerStep step) {
  mpi_.barrier();  // the ranks have completed the step before
  const std::size_t image_bytes = tower_.network().image.bytes(), target_bytes = tower_.graph().target_bytes();
  const std::vector<std::byte> own = ReceivedBatch::bytes_of(step.batch, image_bytes);
  const ReceivedBatch received(mpi_.exchange(own, auditor_, audited_[mpi_.rank()]), image_bytes, target_bytes);
  const GradientChecksums computed = tower_.gradient_checksums(step.step, received.batch(), audited_);
  GradientChecksums taken;
  step.checksums = &taken;
  tower_.step(step);
  std::vector<std::string> variables;
  for (const ParameterSpec& spec : tower_.parameters().specs()) variables.push_back(spec.name);
  const std::string difference =
      audit_difference(step.step, variables, gathered(taken, mpi_), gathered(computed, mpi_), audited_,
                       mpi_.all_gather(fmt::format("rank {} on {}", mpi_.rank(), mpi_.host())));
  if (!difference.empty()) fail_on_all(mpi_, ExitCode::failed, difference);
}

}  // namespace carillon
