// tfrecord_convert: converts pictures, or a published data set, to the TFRecord files that the training programs read.
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <limits>

#include "carillon/core/error.h"
#include "carillon/images/decode.h"
#include "src/cli/commands/commands.h"
#include "src/cli/options/option_set.h"
#include "src/core/manual.h"
#include "src/core/process.h"
#include "src/core/text.h"
#include "src/data/convert/convert_pictures.h"
#include "src/data/convert/shard_writer.h"
#include "src/data/download/download.h"
#include "src/data/records/unfinished_conversion.h"

namespace carillon {
namespace {

/// A source format: its name on the command line, its functions, and the files that --download fetches.
struct SourceFormat {
  std::string_view name;
  std::vector<ImageSplit> (*read)(const std::filesystem::path& input);
  ExampleEncoder encode;
  const PublishedSet& (*published)();
};

/// The name of the format of pictures. Pictures have their own code path, because their number and sizes are unknown in
/// advance.
constexpr std::string_view pictures_format = "images";

const SourceFormat& find_format(const std::string& name) {
  static const SourceFormat formats[] = {{"mnist", read_mnist, encode_mnist, published_mnist},
                                         {"cifar10", read_cifar10, encode_cifar10, published_cifar10}};
  std::string known = fmt::format(" {}", pictures_format);
  for (const SourceFormat& format : formats) {
    if (format.name == name) return format;
    known += fmt::format(" {}", format.name);
  }
  fail(ExitCode::usage, "unknown format '{}': use one of{} (see --help)", name, known);
}

constexpr const char* usage = R"(Writes DIR/train-00000-of-0000N.tfrecord ... and the files of other splits.

formats:
  images   a folder with one folder of pictures per class, or a list file with a line per picture: its path, a tab or
           space, its class. Writes the splits train and, with --validation-share, validation, in random order.
           If the folder contains train and val (valid, validation) or test, each with one folder per class, writes
           these splits. JPEG and PNG files are stored without change. TIFF, WebP and GIF (the first frame) are stored as
           PNG.
           The features are ImageNet's: image/encoded (bytes: the file), image/class/label (int64, 1 for the first
           class), image/class/text, image/height, image/width and others. records.json and labels.txt in the output
           folder name the classes; image_train reads records.json.
           With --targets FILE.csv, --input is the folder of the pictures, and the file has a line per picture: its path
           in that folder, then its class, its labels separated by ; or its numbers, or a column of 0 and 1 per class
           or label
  mnist    a folder of MNIST's or Fashion-MNIST's IDX files, plain or .gz:
           train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte;
           features image_raw (bytes, 784), pixels (int64, their number), label (int64)
  cifar10  CIFAR-10's binary version, as a folder or its archive (.tar, or .tar.gz, .xz, .bz2, .zst):
           data_batch_1.bin to data_batch_5.bin, test_batch.bin;
           features image (bytes, 3072: planes red, green, blue), label (int64)
mnist and cifar10 write the splits train and test, in the order of the source. With --download, they first fetch the
published files, compare the SHA-256 of their contents, and keep them in DIR/download, or in the folder of --input. A
cut download continues where it ended. Proxies are those of the environment (https_proxy).)";

/// Counts records in a line on the terminal. Prints nothing if stderr is a file or a pipe.
std::function<void(std::size_t)> progress_line(const std::string& split, std::size_t count) {
  if (is_dumb_terminal() || !::isatty(STDERR_FILENO)) return [](std::size_t) {};
  return [split = printable(split), count](std::size_t done) {
    print_text(STDERR_FILENO, fmt::format("\r{}: {}/{} records{}", split, done, count, done == count ? "\n" : ""));
  };
}

void print_written(const std::string& split, const WrittenSplit& written) {
  fmt::print("{:<5} {:>6} records {:>10} bytes  {}{}\n", printable(split), written.record_count, written.bytes,
             printable(written.files.front().string()),
             written.files.size() > 1 ? fmt::format(" and {} more", written.files.size() - 1) : "");
}

void convert(const SourceFormat& format, const std::string& input, const std::string& output, std::size_t shards) {
  const auto splits = format.read(input);
  check_shards(splits, shards, output);
  std::vector<CompleteSplit> complete;
  for (const ImageSplit& split : splits) {
    complete.push_back(
        make_image_shards(split, shards, output, format.encode, progress_line(split.name, split.count())));
  }
  publish(output, complete);
  for (std::size_t i = 0; i < splits.size(); ++i) print_written(splits[i].name, complete[i].written);
}

/// Shows the progress of downloads in a line on the terminal. Prints nothing if stderr is a file or a pipe.
class DownloadLine {
 public:
  DownloadLine() = default;
  DownloadLine(const DownloadLine&) = delete;
  DownloadLine& operator=(const DownloadLine&) = delete;
  ~DownloadLine() { end(); }

  void show(const std::string& name, std::uint64_t done, std::uint64_t total) {
    if (!on_terminal_ || (done != total && Clock::now() - shown_at_ < std::chrono::milliseconds(200))) return;
    shown_at_ = Clock::now();
    is_open_ = true;
    const auto text = [](std::uint64_t bytes) { return size_text(static_cast<double>(bytes)); };
    // The spaces at the end overwrite the rest of a longer line.
    print_text(STDERR_FILENO, fmt::format("\r{}: {}{}   ", name, text(done), total > 0 ? " of " + text(total) : ""));
  }
  /// Ends the progress line. Must be called before another line is printed.
  void end() {
    if (is_open_) print_text(STDERR_FILENO, "\n");
    is_open_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const bool on_terminal_ = !is_dumb_terminal() && ::isatty(STDERR_FILENO) != 0;
  Clock::time_point shown_at_;
  bool is_open_ = false;
};

/// The values of --download and of the options that belong to it.
struct DownloadOptions {
  bool is_requested = false;
  std::string mirror;
};

/// Checks --download, --mirror and the format together. Errors: usage.
void check_download(const DownloadOptions& options, bool of_pictures) {
  if (options.is_requested && of_pictures) fail(ExitCode::usage, "--download requires the format mnist or cifar10");
  const std::string& mirror = options.mirror;
  if (mirror.empty()) return;
  if (!options.is_requested) fail(ExitCode::usage, "--mirror requires --download");
  if (!mirror.starts_with("http://") && !mirror.starts_with("https://")) {
    fail(ExitCode::usage, "--mirror '{}': must begin with http:// or https://", printable(mirror));
  }
}

/// Downloads the files of `format` to `input`, or to a folder in `output` if `input` is empty. Returns the path from
/// which the converter of this format reads.
std::string download_source(const SourceFormat& format, const DownloadOptions& options, const std::string& input,
                            const std::string& output) {
  namespace fs = std::filesystem;
  const fs::path folder = input.empty() ? fs::path(output) / "download" : fs::path(input);
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    fail(ExitCode::usage, "--input {}: must be a folder with --download", folder.string());
  }
  const PublishedSet& set = format.published();
  DownloadLine line;
  SetDownload settings{.mirror = options.mirror};
  settings.progress = [&](const std::string& name, std::uint64_t done, std::uint64_t total) {
    line.show(name, done, total);
  };
  settings.transfer.note = [&](const std::string& text) {
    line.end();
    print_text(STDERR_FILENO, fmt::format("tfrecord_convert: {}\n", printable(text)));
  };
  settings.note = [&](const std::string& text) {
    line.end();
    fmt::print("{}\n", printable(text));
  };
  download_set(set, folder, settings);
  return (set.files.size() == 1 ? folder / set.files.front().name : folder).string();
}

/// The exception that ends a conversion of pictures. The conversion's files are then removed.
struct Stopped {};

/// Prints the reports of a conversion of pictures. Throws Stopped once `stops` returns true.
ConversionReports picture_reports(const std::function<bool()>& stops) {
  return {.note = [](const std::string& text) { fmt::print("{}\n", printable(text)); },
          .warn =
              [](const std::string& text) {
                print_text(STDERR_FILENO, fmt::format("tfrecord_convert: {}\n", printable(text)));
              },
          .progress =
              [stops](const std::string& split, std::size_t count) {
                return [stops, show = progress_line(split, count)](std::size_t done) {
                  if (stops()) throw Stopped();
                  show(done);
                };
              }};
}

void print_converted(const ConvertedPictures& converted) {
  for (const auto& [name, written] : converted.splits) print_written(name, written);
  const std::string_view words = target_words(converted.target);
  fmt::print("{}: {}\n{} {}{}\n", words, names_text(converted.classes), converted.classes.size(), words,
             converted.skipped.empty() ? "" : fmt::format("; skipped {}", skipped_text(converted.skipped)));
}

/// All options of the program.
struct ConvertOptions {
  std::string input, output;
  bool finishes = false;
  std::int64_t shards = 1, quality = 95;
  PictureConversionOptions pictures;
  std::string background, targets, task, layout;
  DownloadOptions download;
};

/// Options that only the format images has.
constexpr std::array picture_options{"validation-share", "split",   "overwrite", "background",
                                     "resize-shorter",   "quality", "seed",      "skip-damaged",
                                     "targets",          "task",    "layout"};

OptionSet option_set(ConvertOptions& o) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<int>::max();
  OptionSet set(
      {.program = "tfrecord_convert",
       .purpose = "Converts pictures, or a published data set, to TFRecord files of tf.train.Example",
       .synopses = {"tfrecord_convert FORMAT --input PATH --output DIR [--shards N]",
                    "tfrecord_convert mnist|cifar10 --download --output DIR", "tfrecord_convert --finish --output DIR"},
       .description = usage,
       .words = {"images", "mnist", "cifar10"},
       .exit_statuses = {
           {0, "done"}, {64, "bad usage"}, {65, "damaged input"}, {66, "input missing"}, {74, "I/O error"}}});
  set.use_command_line_only();
  set.set_version(version_line("tfrecord_convert") + "\n");
  set.add("input", o.input, "folder of the source, or its archive (cifar10), or a list file (images)").value_name =
      "PATH";
  set.add("output", o.output, "directory to write to; created if missing").value_name = "DIR";
  set.add("shards", o.shards, least, most, "files per split");
  set.add("finish", o.finishes,
          "convert nothing, and finish the conversion in DIR that was interrupted while it replaced files");
  set.begin_group("options of the formats mnist and cifar10");
  set.add("download", o.download.is_requested,
          "download the dataset to the folder of --input (default: DIR/download), except the files that it contains");
  set.add("mirror", o.download.mirror,
          "address, http or https, of another folder with the same files; default: the publisher's")
      .value_name = "URL";
  set.begin_group("options of the format images");
  PictureConversionOptions& pictures = o.pictures;
  set.add("validation-share", pictures.validation_share, NumberRange::below_one,
          "fraction of each class, 0 to 1, that becomes the split validation, selected by --seed");
  set.add("split", pictures.split,
          "name of the split to write, e.g. validation for a separate folder; if DIR has records, their classes "
          "apply")
      .value_name = "NAME";
  set.add("overwrite", pictures.overwrites, "replace the split that --split names, if it exists");
  set.add("targets", o.targets,
          "targets of the pictures, with a header: path,class or path,labels (several separated by ;) or "
          "path,NAME... (numbers)")
      .value_name = "FILE.csv";
  set.add("task", o.task, "classification, multilabel or regression; default: the cells of --targets decide")
      .value_name = "TASK";
  set.add("layout", o.layout, layout_help).value_name = "LAYOUT";
  set.add("background", o.background,
          "colour behind transparent pixels: white, black or #rrggbb; default: white, or the background of the "
          "records in DIR; records.json and checkpoints store it")
      .value_name = "COLOUR";
  set.add("resize-shorter", pictures.conversion.resize_shorter, least, most,
          "pixels of the shorter side to which larger pictures are reduced; 0: keep all sizes");
  set.add("quality", o.quality, 1, 100, "JPEG quality of reduced pictures, 1 to 100");
  set.add("seed", pictures.seed, "seed of the order and of --validation-share");
  set.add("skip-damaged", pictures.conversion.skip_damaged,
          "skip pictures that cannot be used, with a warning; otherwise the first one ends the conversion");
  return set;
}

/// Returns the options of the conversion of pictures. Errors: usage.
PictureConversionOptions conversion_of(const OptionSet& set, const ConvertOptions& options) {
  PictureConversionOptions pictures = options.pictures;
  pictures.conversion.quality = static_cast<int>(options.quality);
  pictures.conversion.shard_count = static_cast<std::size_t>(options.shards);
  pictures.names_split = set.given("split");
  if (!options.background.empty()) {
    pictures.background = parse_colour(options.background);
    if (!pictures.background) {
      fail(ExitCode::usage, "--background '{}': must be white, black or #rrggbb", printable(options.background));
    }
  }
  pictures.layout = layout_of(options.layout);
  pictures.targets = options.targets;
  if (options.task.empty()) return pictures;
  pictures.target = target_of_task(options.task);
  if (!pictures.target) {
    fail(ExitCode::usage, "--task '{}': must be classification, multilabel or regression", printable(options.task));
  }
  if (options.targets.empty()) fail(ExitCode::usage, "--task requires --targets");
  return pictures;
}

/// If the output contains an interrupted conversion, completes it. Returns whether there was one.
bool finish(const std::string& output) {
  if (!finish_conversion(output)) return false;
  fmt::print("{}: finished the interrupted conversion\n", printable(output));
  return true;
}

int finish_main(const std::vector<std::string>& formats, const ConvertOptions& options) {
  if (!formats.empty() || !options.input.empty()) {
    fail(ExitCode::usage, "--finish converts nothing: omit {}", formats.empty() ? "--input" : "the format");
  }
  if (options.output.empty()) fail(ExitCode::usage, "--output DIR is missing (see --help)");
  if (!finish(options.output)) {
    fmt::print("{}: contains no interrupted conversion\n", printable(options.output));
  }
  return 0;
}

int convert_main(int argc, const char* const* argv, const std::function<bool()>& stops) {
  ConvertOptions options;
  std::vector<std::string> formats;
  OptionSet set = option_set(options);
  if (!set.parse_or_answer(argc, argv, formats)) return 0;
  if (options.finishes) return finish_main(formats, options);
  if (formats.size() > 1) {
    fail(ExitCode::usage, "'{}' belongs to no option: name files and folders with --input and --output (see --help)",
         printable(formats[1]));
  }
  if (formats.empty()) fail(ExitCode::usage, "no format: name one, e.g. mnist (see --help)");
  const SourceFormat* const source = formats.front() == pictures_format ? nullptr : &find_format(formats.front());
  if (options.input.empty() && !options.download.is_requested) {
    fail(ExitCode::usage, "--input PATH is missing{} (see --help)",
         source == nullptr ? "" : "; --download fetches the dataset");
  }
  if (options.output.empty()) fail(ExitCode::usage, "--output DIR is missing (see --help)");
  if (options.shards < 1) fail(ExitCode::usage, "--shards {}: must be 1 or more", options.shards);
  check_download(options.download, source == nullptr);
  if (source == nullptr) {
    finish(options.output);
    print_converted(
        convert_pictures(conversion_of(set, options), options.input, options.output, picture_reports(stops)));
    return 0;
  }
  for (const char* const name : picture_options) {
    if (set.given(name)) fail(ExitCode::usage, "--{} requires the format {}", name, pictures_format);
  }
  const std::string input = options.download.is_requested
                                ? download_source(*source, options.download, options.input, options.output)
                                : options.input;
  finish(options.output);
  convert(*source, input, options.output, static_cast<std::size_t>(options.shards));
  return 0;
}

}  // namespace

int tfrecord_convert_main(int argc, char** argv) {
  return single_process_main("tfrecord_convert", [&] { return convert_main(argc, argv, [] { return false; }); });
}

int convert_until(const std::vector<std::string>& words, const std::function<bool()>& stops) {
  std::vector<const char*> arguments{"tfrecord_convert"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return single_process_main("tfrecord_convert", [&] {
    try {
      return convert_main(static_cast<int>(arguments.size()), arguments.data(), stops);
    } catch (const Stopped&) {
      return static_cast<int>(ExitCode::stopped);
    }
  });
}

}  // namespace carillon
