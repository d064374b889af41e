// tfrecord_convert: converts pictures, or a published data set, to the TFRecord files that the training programs read.
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <iostream>

#include "carillon/core/error.h"
#include "carillon/core/single_process_main.h"
#include "carillon/core/version.h"
#include "src/core/manual.h"
#include "src/core/printable.h"
#include "src/data/convert/cifar10_source.h"
#include "src/data/convert/mnist_source.h"
#include "src/data/convert/picture_records.h"
#include "src/data/decode/dataset_info.h"
#include "src/programs/program_manual.h"

namespace carillon {
namespace {

namespace po = boost::program_options;

/// A source format: its name on the command line, and its two functions.
struct SourceFormat {
  std::string_view name;
  std::vector<ImageSplit> (*read)(const std::filesystem::path& input);
  ExampleEncoder encode;
};

/// Pictures have their own code path, because their number and sizes are unknown in advance.
constexpr std::string_view pictures_format = "images";

const SourceFormat& find_format(const std::string& name) {
  static const SourceFormat formats[] = {{"mnist", read_mnist, encode_mnist},
                                         {"cifar10", read_cifar10, encode_cifar10}};
  std::string known = fmt::format(" {}", pictures_format);
  for (const SourceFormat& format : formats) {
    if (format.name == name) return format;
    known += fmt::format(" {}", format.name);
  }
  fail(ExitCode::usage, "unknown format '{}': use one of{} (see --help)", name, known);
}

constexpr const char* purpose = "Converts pictures, or a published data set, to TFRecord files of tf.train.Example";
constexpr const char* synopsis = "tfrecord_convert FORMAT --input PATH --output DIR [--shards N]";
constexpr const char* usage = R"(Writes DIR/train-00000-of-0000N.tfrecord ... and the files of a second split.

formats:
  images   a folder with one folder of JPEG and PNG files per class, or a list file with a line per picture: its path, a
           tab or space, its class. Writes the splits train and, with --validation-share, validation, in random order.
           The features are ImageNet's: image/encoded (bytes: the file), image/class/label (int64, 1 for the first
           class), image/class/text, image/height, image/width and others. records.json and labels.txt in the output
           folder name the classes; image_train reads records.json
  mnist    a folder of MNIST's or Fashion-MNIST's IDX files, plain or .gz:
           train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte;
           features image_raw (bytes, 784), pixels (int64, their number), label (int64)
  cifar10  CIFAR-10's binary version, as a folder or its archive (.tar, or .tar.gz, .xz, .bz2, .zst):
           data_batch_1.bin to data_batch_5.bin, test_batch.bin;
           features image (bytes, 3072: planes red, green, blue), label (int64)
mnist and cifar10 write the splits train and test, in the order of the source.)";

/// Counts records in a line on the terminal. Prints nothing if stderr is a file or a pipe.
std::function<void(std::size_t)> progress_line(const std::string& split, std::size_t count) {
  if (!::isatty(STDERR_FILENO)) return [](std::size_t) {};
  return [split, count](std::size_t done) {
    fmt::print(stderr, "\r{}: {}/{} records{}", split, done, count, done == count ? "\n" : "");
  };
}

void print_written(const std::string& split, const WrittenSplit& written) {
  fmt::print("{:<5} {:>6} records {:>10} bytes  {}{}\n", split, written.record_count, written.bytes,
             written.files.front().string(),
             written.files.size() > 1 ? fmt::format(" and {} more", written.files.size() - 1) : "");
}

void convert(const SourceFormat& format, const std::string& input, const std::string& output, std::size_t shards) {
  const auto splits = format.read(input);
  check_shards(splits, shards, output);
  for (const ImageSplit& split : splits) {
    const WrittenSplit written =
        write_shards(split, shards, output, format.encode, progress_line(split.name, split.count()));
    print_written(split.name, written);
  }
}

struct ConversionOptions {
  PictureConversion conversion;
  std::string split = "train";
  double validation_share = 0.0;
  std::uint64_t seed = 1;
  bool names_split = false;  ///< --split was given
};

constexpr const char* validation_split = "validation";

void check_options(const ConversionOptions& o) {
  if (!(o.validation_share >= 0.0 && o.validation_share < 1.0)) {
    fail(ExitCode::usage, "--validation-share {}: must be 0 or more and less than 1", o.validation_share);
  }
  if (o.validation_share > 0.0 && o.split != "train") {
    fail(ExitCode::usage, "--validation-share requires --split train, this is --split {}", o.split);
  }
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (o.split.empty() || !std::ranges::all_of(o.split, is_plain)) {
    fail(ExitCode::usage, "--split '{}': must be a name of letters, digits and _", printable(o.split));
  }
  if (o.conversion.resize_shorter < 0) {
    fail(ExitCode::usage, "--resize-shorter {}: must be 0 or more", o.conversion.resize_shorter);
  }
  if (o.conversion.quality < 1 || o.conversion.quality > 100) {
    fail(ExitCode::usage, "--quality {}: must be 1 to 100", o.conversion.quality);
  }
}

/// Requires that `output` has no files of other splits: they may hold the same pictures from an earlier conversion.
/// Errors: usage.
void check_no_other_split(const std::vector<SplitSize>& written, const std::string& output) {
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(output, absent)) {
    const std::string name = entry.path().filename().string();
    const bool is_shard = name.find("-of-") != name.npos && name.ends_with(".tfrecord") && !name.starts_with('.');
    const auto is_of = [&](const SplitSize& split) { return name.starts_with(split.name + "-"); };
    if (!is_shard || std::ranges::any_of(written, is_of)) continue;
    fail(ExitCode::usage,
         "{}: belongs to another split and may hold the same pictures: remove it, or name the split to write with "
         "--split",
         printable(entry.path().string()));
  }
}

void convert_pictures(const ConversionOptions& options, const std::string& input, const std::string& output) {
  check_options(options);
  const std::optional<DatasetInfo> there = read_dataset_info(output);
  DatasetInfo usual;
  if (there) usual.classes = there->classes;
  if (there && *there != usual) {
    fail(ExitCode::usage, "{}: its {} describes records with other keys or labels: choose another directory",
         printable(output), dataset_info_name);
  }
  const PictureList list = list_pictures(input, there ? there->classes : std::vector<std::string>{});
  if (list.passed_over > 0) {
    fmt::print(stderr,
               "tfrecord_convert: ignored {} files in {} that are not .jpg, .jpeg or .png files in the folder of a "
               "class\n",
               list.passed_over, printable(input));
  }
  const SharedPictures parts = share_out(list.pictures, list.classes.size(), options.validation_share, options.seed);
  struct Split {
    std::string name;
    const std::vector<ListedPicture>& pictures;
  };
  std::vector<Split> splits{{options.split, parts.kept}};
  if (!parts.taken.empty()) splits.push_back({validation_split, parts.taken});
  if (options.validation_share > 0.0 && parts.taken.empty()) {
    fail(ExitCode::usage, "--validation-share {}: selects none of the {} pictures: increase it",
         options.validation_share, list.pictures.size());
  }
  std::vector<SplitSize> sizes;
  for (const Split& split : splits) sizes.push_back({split.name, split.pictures.size()});
  check_shards(sizes, options.conversion.shard_count, output);
  if (!options.names_split) check_no_other_split(sizes, output);
  std::size_t skipped = 0;
  const auto warn = [&skipped](const std::string& text) {
    ++skipped;
    fmt::print(stderr, "tfrecord_convert: skipped: {}\n", printable(text));
  };
  std::vector<CompleteSplit> complete;
  for (const Split& split : splits) {
    complete.push_back(make_picture_shards(split.name, split.pictures, list.classes, options.conversion, output, warn,
                                           progress_line(split.name, split.pictures.size())));
    if (complete.back().written.record_count > 0) continue;
    fail(ExitCode::data, "{}: all {} pictures of the split {} are damaged", printable(input), split.pictures.size(),
         split.name);
  }
  DatasetInfo form;
  form.classes = list.classes;
  write_dataset_info(output, form);
  publish(complete, output);
  for (std::size_t i = 0; i < splits.size(); ++i) print_written(splits[i].name, complete[i].written);
  fmt::print("{} classes{}\n", list.classes.size(),
             skipped > 0 ? fmt::format("; skipped {} damaged pictures", skipped) : "");
}

int convert_main(int argc, char** argv) {
  std::string format, input, output;
  std::int64_t shards = 1;
  ConversionOptions pictures;
  po::options_description options;
  options.add_options()("help,h", "print this help and exit")("version", "print the version and exit")  //
      ("input", po::value(&input)->value_name("PATH"),
       "folder of the source, or its archive (cifar10), or a list file (images)")(
          "output", po::value(&output)->value_name("DIR"), "directory to write to; created if missing")(
          "shards", po::value(&shards)->value_name("N")->default_value(1), "files per split");
  po::options_description of_pictures;
  of_pictures.add_options()  //
      ("validation-share", po::value(&pictures.validation_share)->value_name("X")->default_value(0.0),
       "fraction of each class, 0 to 1, that becomes the split validation, selected by --seed")(
          "split", po::value(&pictures.split)->value_name("NAME")->default_value("train"),
          "name of the split to write, e.g. validation for a separate folder; the classes are those in DIR, if it has "
          "some")("resize-shorter", po::value(&pictures.conversion.resize_shorter)->value_name("N")->default_value(0),
                  "pixels of the shorter side to which larger pictures are reduced; 0: keep all sizes")(
          "quality", po::value(&pictures.conversion.quality)->value_name("N")->default_value(95),
          "JPEG quality of reduced pictures, 1 to 100")("seed",
                                                        po::value(&pictures.seed)->value_name("N")->default_value(1),
                                                        "seed of the order and of --validation-share")(
          "skip-damaged", po::bool_switch(&pictures.conversion.skip_damaged),
          "skip damaged pictures with a warning; otherwise the first one ends the conversion");
  po::options_description all;
  all.add(options).add(of_pictures).add_options()("format", po::value(&format));
  const auto manual = [&]() -> Manual {
    return {.program = "tfrecord_convert",
            .purpose = purpose,
            .synopses = {synopsis},
            .description = usage,
            .groups = {manual_group("", options), manual_group("options of the format images", of_pictures)},
            .words = {"images", "mnist", "cifar10"},
            .exit_statuses = {
                {0, "done"}, {64, "bad usage"}, {65, "damaged input"}, {66, "input missing"}, {74, "I/O error"}}};
  };
  if (print_document(argc, argv, manual)) return 0;
  po::variables_map given;
  try {
    po::store(po::command_line_parser(argc, argv)
                  .options(all)
                  .positional(po::positional_options_description().add("format", 1))
                  .run(),
              given);
    po::notify(given);
  } catch (const po::error& error) {
    fail(ExitCode::usage, "{} (see --help)", error.what());
  }
  if (given.count("version") > 0) {
    fmt::print("{}\n", version_line("tfrecord_convert"));
    return 0;
  }
  if (given.count("help") > 0) {
    std::cout << help_text(manual());
    return 0;
  }
  if (format.empty()) fail(ExitCode::usage, "no format: name one, e.g. mnist (see --help)");
  const SourceFormat* const source = format == pictures_format ? nullptr : &find_format(format);
  if (input.empty()) fail(ExitCode::usage, "--input PATH is missing (see --help)");
  if (output.empty()) fail(ExitCode::usage, "--output DIR is missing (see --help)");
  if (shards < 1) fail(ExitCode::usage, "--shards {}: must be 1 or more", shards);
  if (source == nullptr) {
    pictures.conversion.shard_count = static_cast<std::size_t>(shards);
    pictures.names_split = !given["split"].defaulted();
    convert_pictures(pictures, input, output);
  } else {
    for (const char* name : {"validation-share", "split", "resize-shorter", "quality", "seed", "skip-damaged"}) {
      if (!given[name].defaulted()) fail(ExitCode::usage, "--{} requires the format {}", name, pictures_format);
    }
    convert(*source, input, output, static_cast<std::size_t>(shards));
  }
  return 0;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::single_process_main("tfrecord_convert", [&] { return carillon::convert_main(argc, argv); });
}
