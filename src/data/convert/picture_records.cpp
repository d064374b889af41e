#include "src/data/convert/convert_pictures.h"

#include <omp.h>

#include <algorithm>
#include <exception>

#include "carillon/core/error.h"
#include "carillon/images/view.h"
#include "src/core/resources.h"
#include "src/data/decode/dataset_info.h"
#include "src/data/records/example_proto.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

/// Longest side that libjpeg writes. If the longer side would exceed this after --resize-shorter, the picture is not
/// reduced.
constexpr std::int64_t max_jpeg_side = 65500;

/// A picture as a record stores it.
struct StoredPicture {
  std::string file;
  PictureInfo info;
};

std::span<const std::uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

/// Re-encodes the picture. If `shorter` is not 0, resizes the shorter side of the picture to `shorter` pixels.
StoredPicture encoded_again(const std::string& file, const PictureInfo& info, std::int64_t shorter,
                            PictureFormat format, const PictureConversion& conversion) {
  thread_local ViewMemory memory;
  const std::int64_t least = std::min(info.height, info.width), wanted = shorter > 0 ? shorter : least;
  PictureView view{.part = {0, 0, info.height, info.width},
                   .resized_height = std::max<std::int64_t>(1, info.height * wanted / least),
                   .resized_width = std::max<std::int64_t>(1, info.width * wanted / least)};
  view.height = view.resized_height;
  view.width = view.resized_width;
  view.background = conversion.background;
  Picture picture{.height = view.height, .width = view.width, .channels = 3, .pixels = {}};
  picture.pixels.resize(static_cast<std::size_t>(picture.height * picture.width * 3));
  render_view(bytes_of(file), view, Resampling::antialiased, memory, picture.pixels);
  if (format == PictureFormat::png) return {encode_png(picture), {format, picture.height, picture.width, 3}};
  return {encode_jpeg(picture, conversion.quality), {format, picture.height, picture.width, 3}};
}

StoredPicture stored(std::string file, const PictureConversion& conversion) {
  const PictureInfo info = picture_info(bytes_of(file));
  const std::int64_t least = std::min(info.height, info.width);
  const std::int64_t longest = std::max(info.height, info.width);
  const bool is_reduced = conversion.resize_shorter > 0 && least > conversion.resize_shorter &&
                          longest * conversion.resize_shorter / least <= max_jpeg_side;
  if (is_reduced || info.channels == 4) {
    return encoded_again(file, info, is_reduced ? conversion.resize_shorter : 0, PictureFormat::jpeg, conversion);
  }
  if (info.has_transparency && conversion.background != Colour{}) {
    return encoded_again(file, info, 0, PictureFormat::png, conversion);
  }
  thread_local DecodedPart whole;
  decode_whole(bytes_of(file), whole);
  free_if_large(whole.pixels);
  return {std::move(file), info};
}

/// Adds the target as the feature info.keys.label. Also adds the names of the target's classes or labels.
void add_target(const ListedPicture& listed, const DatasetInfo& info, proto::Example& example) {
  auto& features = *example.mutable_features()->mutable_feature();
  proto::Feature& feature = features[info.keys.label];
  if (info.target == TargetKind::numbers) {
    for (const float number : listed.numbers) feature.mutable_float_list()->add_value(number);
    return;
  }
  std::vector<std::size_t> labels = listed.labels;
  if (info.target == TargetKind::class_index) labels = {listed.class_index};
  proto::Int64List& list = *feature.mutable_int64_list();  // creates the list in the record even if there are no labels
  proto::BytesList& names = *features["image/class/text"].mutable_bytes_list();
  for (const std::size_t label : labels) {
    list.add_value(info.first_label + static_cast<std::int64_t>(label));
    names.add_value(info.classes[label]);
  }
}

std::string record_of(const ListedPicture& listed, const DatasetInfo& info, const PictureConversion& conversion) {
  StoredPicture picture;
  const auto read = conversion.reads_copies ? read_picture_or_copy : read_picture;
  read(listed.path, conversion.background, [&](std::string file) { picture = stored(std::move(file), conversion); });
  proto::Example example;
  add_target(listed, info, example);
  auto& features = *example.mutable_features()->mutable_feature();
  const auto add_text = [&](const char* key, const std::string& text) {
    features[key].mutable_bytes_list()->add_value(text);
  };
  const auto add_number = [&](const char* key, std::int64_t number) {
    features[key].mutable_int64_list()->add_value(number);
  };
  const bool is_grey = picture.info.channels == 1;
  features[info.keys.image].mutable_bytes_list()->add_value(std::move(picture.file));
  add_number("image/height", picture.info.height);
  add_number("image/width", picture.info.width);
  add_number("image/channels", is_grey ? 1 : 3);
  add_text("image/colorspace", is_grey ? "Grayscale" : "RGB");
  add_text("image/format", picture.info.format == PictureFormat::jpeg ? "JPEG" : "PNG");
  add_text("image/filename", listed.name);
  std::string record;
  serialise(example, record);
  return record;
}

/// Encodes records in groups on all cores and returns them in order.
class RecordsAhead {
 public:
  /// `bytes_of`: returns the approximate size of a record.
  RecordsAhead(std::size_t count, std::function<std::string(std::size_t)> make,
               std::function<std::uint64_t(std::size_t)> bytes_of)
      : count_(count), make_(std::move(make)), bytes_of_(std::move(bytes_of)) {}

  /// Returns record i. The calls must be in ascending order of i. Errors: the errors of `make`.
  std::string take(std::size_t i) {
    if (i >= first_ + made_.size()) make_from(i);
    Made& made = made_[i - first_];
    if (made.error) std::rethrow_exception(made.error);
    return std::move(made.record);
  }

 private:
  struct Made {
    std::string record;
    std::exception_ptr error;
  };

  void make_from(std::size_t first) {
    constexpr std::size_t records_per_thread = 32;
    constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;
    const auto threads = static_cast<std::size_t>(cores_within(cpu_quota(), omp_get_max_threads()));
    first_ = first;
    std::size_t last = first;
    for (std::uint64_t bytes = 0; last < count_ && last - first < records_per_thread * threads; ++last) {
      bytes += bytes_of_(last);
      if (bytes > most_bytes && last - first >= threads) break;
    }
    made_.clear();
    made_.resize(last - first);
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < made_.size(); ++i) {
      try {
        made_[i].record = make_(first_ + i);
      } catch (...) {
        made_[i].error = std::current_exception();
      }
    }
  }

  std::size_t count_, first_ = 0;
  std::function<std::string(std::size_t)> make_;
  std::function<std::uint64_t(std::size_t)> bytes_of_;
  std::vector<Made> made_;
};

}  // namespace

CompleteSplit make_picture_shards(const std::string& name, const std::vector<ListedPicture>& pictures,
                                  const DatasetInfo& info, const PictureConversion& conversion,
                                  const std::filesystem::path& directory, const SkipPicture& skips,
                                  const std::function<void(std::size_t)>& progress) {
  const auto bytes_of_file = [&](std::size_t i) {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(pictures[i].path, error);
    return error ? 0 : static_cast<std::uint64_t>(bytes);
  };
  RecordsAhead records(
      pictures.size(), [&](std::size_t i) { return record_of(pictures[i], info, conversion); }, bytes_of_file);
  const auto make = [&](std::size_t i, std::string& record) {
    try {
      record = records.take(i);
      return true;
    } catch (const UnusablePicture& unusable) {
      if (!skips(i, unusable)) throw;
      return false;
    }
  };
  return make_shards({name, pictures.size()}, conversion.shard_count, directory, make, progress);
}

}  // namespace carillon
