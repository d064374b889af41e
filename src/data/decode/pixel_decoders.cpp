#include "src/data/decode/pixel_decoders.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/labelled_images.h"

namespace carillon {
namespace {

struct FileKind {
  std::string_view magic, name;
};
constexpr FileKind file_kinds[] = {{"\x89PNG", "PNG"}, {"\xFF\xD8\xFF", "JPEG"}, {"GIF8", "GIF"}};

constexpr std::size_t cifar10_source_record_bytes = 3073;

/// D(offset), as defined at ChannelOrder.
double mean_distance(std::span<const std::uint8_t> image, std::size_t offset) {
  std::uint64_t sum = 0;
  for (std::size_t i = offset; i < image.size(); ++i)
    sum += static_cast<std::uint64_t>(std::abs(int{image[i]} - int{image[i - offset]}));
  return static_cast<double>(sum) / static_cast<double>(image.size() - offset);
}

}  // namespace

std::string describe_image_form(std::span<const std::uint8_t> image) {
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  for (const FileKind& kind : file_kinds)
    if (text.starts_with(kind.magic)) return fmt::format(": looks like a {} file, not like pixels", kind.name);
  if (image.size() == cifar10_source_record_bytes)
    return ": looks like a record of CIFAR-10's binary version, with its label";
  for (const std::size_t value_bytes : {sizeof(std::uint8_t), sizeof(float)})
    for (const std::size_t side : {24, 28, 32}) {
      const std::string_view type = value_bytes == sizeof(float) ? " of float32" : "";
      if (image.size() == side * side * value_bytes)
        return fmt::format(": looks like a grey {}x{} image{}", side, side, type);
      if (image.size() == side * side * 3 * value_bytes) return fmt::format(": looks like {}x{}x3{}", side, side, type);
    }
  return "";
}

ChannelOrder::ChannelOrder(const ImageShape& shape)
    : planar_offset_(static_cast<std::size_t>(shape.width)),
      interleaved_offset_(static_cast<std::size_t>(shape.width * shape.channels)) {
  check(shape.channels > 1 && interleaved_offset_ < shape.bytes(),
        "channel order detection requires colour images of at least two rows");
}

void ChannelOrder::add(std::span<const std::uint8_t> image) {
  planar_distance_ += mean_distance(image, planar_offset_);
  interleaved_distance_ += mean_distance(image, interleaved_offset_);
}

bool ChannelOrder::seems_interleaved() const {
  constexpr double threshold = 0.7;
  return interleaved_distance_ < threshold * planar_distance_;
}

namespace {

class GreyDecoder final : public LabelledImageDecoder {
 public:
  explicit GreyDecoder(RecordSchema schema) : LabelledImageDecoder(std::move(schema)) {
    check(image_shape().channels == 1, "grey images must have one channel");
  }

  void decode(std::span<const std::uint8_t> record, std::uint64_t /*position*/, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    copy_pixels(record, image, target);
  }
};

}  // namespace

std::unique_ptr<RecordDecoder> make_grey_decoder(RecordSchema schema) {
  return std::make_unique<GreyDecoder>(std::move(schema));
}

namespace {

class PlanarDecoder final : public LabelledImageDecoder {
 public:
  explicit PlanarDecoder(RecordSchema schema) : LabelledImageDecoder(std::move(schema)) {
    check(image_shape().channels > 1, "planar images must have several channels");
  }

  void decode(std::span<const std::uint8_t> record, std::uint64_t /*position*/, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    copy_pixels(record, image, target);
  }

  /// Detects the channel order from images spread over the dataset.
  std::string find_fault(std::size_t record_count, const ReadImage& read) const override {
    constexpr std::size_t max_sample_count = 256;
    if (image_shape().height < 2) return {};  // one row shows no order
    ChannelOrder order(image_shape());
    const std::size_t sample_count = std::min(record_count, max_sample_count);
    std::vector<std::uint8_t> image(image_shape().bytes());
    for (std::size_t i = 0; i < sample_count; ++i) {
      read(i * record_count / sample_count, image);
      order.add(image);
    }
    if (!order.seems_interleaved()) return {};
    return fmt::format(
        "the images in feature '{}' look interleaved (HWC: red, green, blue of each pixel), not like planes (CHW): "
        "write all red values first, then green, then blue",
        schema().keys.image);
  }
};

}  // namespace

std::unique_ptr<RecordDecoder> make_planar_decoder(RecordSchema schema) {
  return std::make_unique<PlanarDecoder>(std::move(schema));
}

}  // namespace carillon
