// CudaInputStage: owns the GPU memory of a StepTable and copies the inputs of steps to it.
//
// If the records of the dataset are in host memory and fit in half of the GPU's free memory, they are uploaded once.
// Otherwise each slot has memory for one batch, and the samples are copied through page-locked memory.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "carillon/core/error.h"
#include "src/device/cuda_device.h"
#include "src/step/input/input_stage.h"

namespace carillon {
namespace {

class CudaInputStage final : public InputStage {
 public:
  CudaInputStage(CudaDevice& device, const InputStageSpec& form);

  bool keeps_records() const override { return kept_images_.data() != nullptr; }
  void write(std::uint32_t slot, const StepRequest& request) override;
  void upload(std::uint32_t first, std::uint32_t count, Stream& stream) override;
  StepOutcome outcome(std::uint32_t slot) const override;

 private:
  /// A buffer on the GPU and a page-locked buffer of the same size on the host.
  struct Mirrored {
    Buffer host, device;
    Mirrored() = default;
    Mirrored(CudaDevice& owner, std::size_t bytes)
        : host(owner.allocate_pinned(bytes)), device(owner.allocate(bytes)) {}
    std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(host.data()) + offset; }
    void copy(std::size_t offset, std::size_t bytes, const CudaStream& stream) const;
  };

  /// True if the dataset is decoded in host memory, and its records need at most max_kept_bytes and at most half of the
  /// GPU's free memory.
  bool fits_on(const CudaDevice& device) const;
  void keep(CudaDevice& device, const Dataset& dataset);
  void set_inputs();
  void write_samples(std::uint32_t slot, const Batch& batch);

  InputStageSpec form_;
  std::uint32_t entry_bytes_;
  Mirrored entries_;
  Buffer kept_images_, kept_targets_;  ///< [record - form_.kept.begin], if keeps_records()
  Mirrored images_, targets_;          ///< [slot][batch]; only used if keeps_records() is false
  Buffer step_counter_, blocks_done_, outcomes_;
};

void CudaInputStage::Mirrored::copy(std::size_t offset, std::size_t bytes, const CudaStream& stream) const {
  check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(device.data()) + offset, at(offset), bytes, cudaMemcpyHostToDevice,
                             stream.get()));
}

CudaInputStage::CudaInputStage(CudaDevice& device, const InputStageSpec& form)
    : form_(form),
      entry_bytes_(StepTable::bytes_of_entry(form.batch_size)),
      entries_(device, std::size_t{form.slots} * entry_bytes_),
      step_counter_(device.allocate(sizeof(std::uint64_t))),
      blocks_done_(device.allocate(sizeof(std::uint32_t))),
      outcomes_(device.allocate_pinned(form.slots * sizeof(StepOutcome))) {
  check(std::has_single_bit(form.slots), "the number of slots must be a power of two");
  if (form.dataset != nullptr) form_.kept.end = std::min<std::uint64_t>(form.kept.end, form.dataset->size());
  if (fits_on(device)) {
    keep(device, *form.dataset);
  } else {
    images_ = Mirrored(device, std::size_t{form.slots} * form.batch_size * form.image_bytes);
    targets_ = Mirrored(device, std::size_t{form.slots} * form.batch_size * form.target_bytes);
  }
  set_inputs();
}

bool CudaInputStage::fits_on(const CudaDevice& device) const {
  const Dataset* const dataset = form_.dataset;
  if (dataset == nullptr || !dataset->in_memory() || form_.kept.begin >= form_.kept.end) return false;
  const std::size_t bytes = (form_.kept.end - form_.kept.begin) * (dataset->image_bytes() + form_.target_bytes);
  return bytes <= std::min(form_.max_kept_bytes, device.free_bytes() / 2);
}

void CudaInputStage::keep(CudaDevice& device, const Dataset& dataset) {
  constexpr std::size_t piece = 4096;  // number of records per copy; they are first gathered in contiguous memory
  const std::size_t image_bytes = dataset.image_bytes(), begin = form_.kept.begin, count = form_.kept.end - begin;
  check(image_bytes == form_.image_bytes, "the size of the dataset's images differs from the input stage's");
  check(form_.target_bytes == 0 || dataset.target_bytes() == form_.target_bytes,
        "the size of the dataset's targets differs from the input stage's");
  kept_images_ = device.allocate(count * image_bytes);
  kept_targets_ = device.allocate(count * form_.target_bytes);
  if (form_.target_bytes > 0) {
    const auto targets = dataset.targets().subspan(begin * form_.target_bytes, count * form_.target_bytes);
    device.upload(targets.data(), kept_targets_.data(), targets.size());
  }
  std::vector<std::uint8_t> images(std::min(piece, count) * image_bytes);
  for (std::size_t first = 0; first < count; first += piece) {
    const std::size_t records = std::min(piece, count - first);
    for (std::size_t i = 0; i < records; ++i) {
      dataset.check_unchanged(begin + first + i);
      std::memcpy(images.data() + i * image_bytes, dataset.image(begin + first + i), image_bytes);
    }
    device.upload(images.data(), static_cast<std::byte*>(kept_images_.data()) + first * image_bytes,
                  records * image_bytes);
  }
}

void CudaInputStage::set_inputs() {
  const bool kept = keeps_records();
  inputs_.table = {.entries = static_cast<const std::byte*>(entries_.device.data()),
                   .entry_bytes = entry_bytes_,
                   .capacity = form_.slots,
                   .records_at = StepTable::records_offset(form_.batch_size),
                   .step_counter = static_cast<const std::uint64_t*>(step_counter_.data()),
                   .images = static_cast<const std::uint8_t*>(kept ? kept_images_.data() : images_.device.data()),
                   .image_bytes = static_cast<std::uint32_t>(form_.image_bytes),
                   .target_bytes = static_cast<std::uint32_t>(form_.target_bytes),
                   .targets = static_cast<const std::byte*>(kept ? kept_targets_.data() : targets_.device.data())};
  inputs_.progress = {.step_counter = static_cast<std::uint64_t*>(step_counter_.data()),
                      .blocks_done = static_cast<std::uint32_t*>(blocks_done_.data()),
                      .outcomes = static_cast<StepOutcome*>(outcomes_.data()),
                      .capacity = form_.slots};
}

void CudaInputStage::write(std::uint32_t slot, const StepRequest& request) {
  const Batch& batch = request.batch;
  std::byte* const entry = entries_.at(std::size_t{slot} * entry_bytes_);
  const StepHeader header{.first_position = batch.first_position,
                          .scalars = request.scalars,
                          .request_sync = request.request_sync ? 1.0f : 0.0f,
                          .reports_l2 = request.reports_l2 ? 1u : 0u};
  std::memcpy(entry, &header, sizeof(header));
  auto* const rows = reinterpret_cast<std::uint32_t*>(entry + StepTable::rows_offset);
  auto* const records = reinterpret_cast<std::uint32_t*>(entry + inputs_.table.records_at);
  std::ranges::copy(batch.records, records);
  if (keeps_records()) {
    check(batch.records.size() == form_.batch_size, "the batch has no record numbers");
    for (std::size_t i = 0; i < form_.batch_size; ++i) {
      check(batch.records[i] >= form_.kept.begin && batch.records[i] < form_.kept.end,
            "the batch has a record that the GPU does not keep");
      rows[i] = static_cast<std::uint32_t>(batch.records[i] - form_.kept.begin);
    }
  } else {
    check(batch.images.size() == form_.batch_size, "the batch size differs from the input stage's");
    for (std::size_t i = 0; i < form_.batch_size; ++i) {
      rows[i] = static_cast<std::uint32_t>(slot * form_.batch_size + i);
    }
    write_samples(slot, batch);
  }
}

void CudaInputStage::write_samples(std::uint32_t slot, const Batch& batch) {
  for (std::size_t i = 0; i < form_.batch_size; ++i) {
    std::memcpy(images_.at((slot * form_.batch_size + i) * form_.image_bytes), batch.images[i], form_.image_bytes);
  }
  const std::size_t target_bytes = form_.batch_size * form_.target_bytes;
  if (target_bytes == 0) return;
  check(batch.targets.size() == target_bytes, "the size of the batch's targets differs from the input stage's");
  std::memcpy(targets_.at(slot * target_bytes), batch.targets.data(), target_bytes);
}

void CudaInputStage::upload(std::uint32_t first, std::uint32_t count, Stream& stream) {
  const std::uint32_t before_end = std::min(count, form_.slots - first);
  const auto copy = [&](const Mirrored& memory, std::size_t slot_bytes) {
    memory.copy(first * slot_bytes, before_end * slot_bytes, as_cuda(stream));
    if (before_end < count) memory.copy(0, (count - before_end) * slot_bytes, as_cuda(stream));
  };
  copy(entries_, entry_bytes_);
  if (keeps_records()) return;
  copy(images_, form_.batch_size * form_.image_bytes);
  if (form_.target_bytes > 0) copy(targets_, form_.batch_size * form_.target_bytes);
}

StepOutcome CudaInputStage::outcome(std::uint32_t slot) const {
  return static_cast<const StepOutcome*>(outcomes_.data())[slot];
}

}  // namespace

std::unique_ptr<InputStage> make_cuda_input_stage(Device& device, const InputStageSpec& form) {
  return std::make_unique<CudaInputStage>(as_cuda(device), form);
}

}  // namespace carillon
