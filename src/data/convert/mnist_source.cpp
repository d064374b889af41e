#include "src/data/convert/image_sources.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/data/convert/source_file.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t side = 28, image_bytes = side * side;
constexpr std::uint8_t class_count = 10;

/// Finds the file, with or without the suffix .gz.
std::string find_file(const fs::path& directory, const std::string& name) {
  const fs::path plain = directory / name, gzip = directory / (name + ".gz");
  std::error_code error;
  if (fs::exists(plain, error) || error) return plain.string();  // opening it names the error
  if (fs::exists(gzip, error)) return gzip.string();
  fail(ExitCode::no_input, "{}: no such file, with or without .gz", plain.string());
}

/// Reads an IDX file of unsigned bytes. `item_shape` is the shape of one item, e.g. {28, 28}.
std::vector<std::uint8_t> read_idx(const std::string& path, std::span<const std::size_t> item_shape) {
  SourceFile file(path);
  const std::size_t header_words = 2 + item_shape.size();
  const auto header = file.take(4 * header_words);
  if (header.size() < 4 * header_words)
    fail(ExitCode::data, "{}: {} bytes are less than an IDX file's header of {} bytes", path, header.size(),
         4 * header_words);
  const auto word = [&](std::size_t i) {
    const std::uint8_t* bytes = header.data() + 4 * i;
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
  };
  const std::uint32_t magic = 0x00000800u | static_cast<std::uint32_t>(1 + item_shape.size());
  if (word(0) != magic)
    fail(ExitCode::data, "{}: starts with {:08x} instead of {:08x}: not the IDX file that its name indicates", path,
         word(0), magic);
  std::size_t item_bytes = 1;
  for (std::size_t i = 0; i < item_shape.size(); ++i) {
    if (word(2 + i) != item_shape[i])
      fail(ExitCode::data, "{}: dimension {} is {}, not {}", path, 1 + i, word(2 + i), item_shape[i]);
    item_bytes *= item_shape[i];
  }
  const std::size_t wanted_bytes = word(1) * item_bytes;
  auto items = file.take(wanted_bytes);
  if (items.size() < wanted_bytes)
    fail(ExitCode::data, "{}: truncated: {} bytes of data; the header's {} items need {}", path, items.size(), word(1),
         wanted_bytes);
  if (!file.take(1).empty()) fail(ExitCode::data, "{}: trailing bytes after the {} items of its header", path, word(1));
  return items;
}

ImageSplit read_split(const fs::path& directory, const std::string& name, const std::string& prefix) {
  const std::string images_path = find_file(directory, prefix + "-images-idx3-ubyte");
  const std::string labels_path = find_file(directory, prefix + "-labels-idx1-ubyte");
  constexpr std::size_t image_shape[] = {side, side};
  ImageSplit split{.name = name,
                   .image_bytes = image_bytes,
                   .images = read_idx(images_path, image_shape),
                   .labels = read_idx(labels_path, {})};
  if (split.images.size() != split.count() * image_bytes)
    fail(ExitCode::data, "{}: {} images, but {} has {} labels", images_path, split.images.size() / image_bytes,
         labels_path, split.count());
  const auto bad = std::ranges::find_if(split.labels, [](std::uint8_t label) { return label >= class_count; });
  if (bad != split.labels.end())
    fail(ExitCode::data, "{}: item {}: label {} is outside 0..{}", labels_path, bad - split.labels.begin(), *bad,
         class_count - 1);
  return split;
}

}  // namespace

std::vector<ImageSplit> read_mnist(const fs::path& directory) {
  std::vector<ImageSplit> splits;
  splits.push_back(read_split(directory, "train", "train"));
  splits.push_back(read_split(directory, "test", "t10k"));
  return splits;
}

void encode_mnist(const ImageSplit& split, std::size_t i, proto::Example& example) {
  auto& features = *example.mutable_features()->mutable_feature();
  const auto image = split.image(i);
  features["image_raw"].mutable_bytes_list()->add_value(image.data(), image.size());
  features["pixels"].mutable_int64_list()->add_value(static_cast<std::int64_t>(image.size()));
  features["label"].mutable_int64_list()->add_value(split.labels[i]);
}

}  // namespace carillon
