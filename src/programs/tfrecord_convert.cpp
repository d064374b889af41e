// tfrecord_convert: converts pictures, or a published data set, to the TFRecord files that the training programs read.
#include <unistd.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <iostream>

#include "carillon/core/error.h"
#include "carillon/core/single_process_main.h"
#include "carillon/core/version.h"
#include "src/core/count_text.h"
#include "src/core/dumb_terminal.h"
#include "src/core/manual.h"
#include "src/core/printable.h"
#include "src/core/size_text.h"
#include "src/data/convert/cifar10_source.h"
#include "src/data/convert/convert_pictures.h"
#include "src/data/convert/mnist_source.h"
#include "src/data/download/published_set.h"
#include "src/images/colour.h"
#include "src/programs/program_manual.h"
#include "src/programs/programs.h"

namespace carillon {
namespace {

namespace po = boost::program_options;

/// A source format: its name on the command line, its functions, and what --download fetches.
struct SourceFormat {
  std::string_view name;
  std::vector<ImageSplit> (*read)(const std::filesystem::path& input);
  ExampleEncoder encode;
  const PublishedSet& (*published)();
};

/// Pictures have their own code path, because their number and sizes are unknown in advance.
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

constexpr const char* purpose = "Converts pictures, or a published data set, to TFRecord files of tf.train.Example";
const std::vector<std::string> synopses{"tfrecord_convert FORMAT --input PATH --output DIR [--shards N]",
                                        "tfrecord_convert mnist|cifar10 --download --output DIR"};
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
           in that folder, then its class, its labels separated by ; or its numbers
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
  for (const ImageSplit& split : splits) {
    const WrittenSplit written =
        write_shards(split, shards, output, format.encode, progress_line(split.name, split.count()));
    print_written(split.name, written);
  }
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
    // The spaces overwrite the end of a longer line.
    print_text(STDERR_FILENO, fmt::format("\r{}: {}{}   ", name, text(done), total > 0 ? " of " + text(total) : ""));
  }
  /// Before another line.
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

/// --download and its options.
struct DownloadOptions {
  bool is_requested = false;
  std::string mirror;
};

/// Errors: usage.
void check_download(const DownloadOptions& options, bool of_pictures) {
  if (options.is_requested && of_pictures) fail(ExitCode::usage, "--download requires the format mnist or cifar10");
  const std::string& mirror = options.mirror;
  if (mirror.empty()) return;
  if (!options.is_requested) fail(ExitCode::usage, "--mirror requires --download");
  if (!mirror.starts_with("http://") && !mirror.starts_with("https://")) {
    fail(ExitCode::usage, "--mirror '{}': must begin with http:// or https://", printable(mirror));
  }
}

/// Downloads the files of `format` to `input`, or to a folder in `output` if `input` is empty. Returns the path that
/// the format reads.
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

/// Prints what the conversion of pictures reports.
ConversionReports picture_reports() {
  return {.note = [](const std::string& text) { fmt::print("{}\n", printable(text)); },
          .warn =
              [](const std::string& text) {
                print_text(STDERR_FILENO, fmt::format("tfrecord_convert: {}\n", printable(text)));
              },
          .progress = progress_line};
}

void print_converted(const ConvertedPictures& converted) {
  for (const auto& [name, written] : converted.splits) print_written(name, written);
  fmt::print(
      "{} {}{}\n", converted.class_count, target_words(converted.target),
      converted.skipped > 0 ? fmt::format("; skipped {}", count_text(converted.skipped, "damaged picture")) : "");
}

int convert_main(int argc, char** argv) {
  std::string format, input, output;
  std::vector<std::string> formats;
  std::int64_t shards = 1;
  PictureConversionOptions pictures;
  std::string background, targets, task;
  DownloadOptions download;
  po::options_description options;
  options.add_options()("help,h", "print this help and exit")("version", "print the version and exit")  //
      ("input", po::value(&input)->value_name("PATH"),
       "folder of the source, or its archive (cifar10), or a list file (images)")(
          "output", po::value(&output)->value_name("DIR"), "directory to write to; created if missing")(
          "shards", po::value(&shards)->value_name("N")->default_value(1), "files per split");
  po::options_description of_downloads;
  of_downloads.add_options()  //
      ("download", po::bool_switch(&download.is_requested),
       "download the dataset to the folder of --input (default: DIR/download), except the files that it contains")(
          "mirror", po::value(&download.mirror)->value_name("URL"),
          "address, http or https, of another folder with the same files; default: the publisher's");
  po::options_description of_pictures;
  of_pictures.add_options()  //
      ("validation-share", po::value(&pictures.validation_share)->value_name("X")->default_value(0.0),
       "fraction of each class, 0 to 1, that becomes the split validation, selected by --seed")(
          "split", po::value(&pictures.split)->value_name("NAME")->default_value("train"),
          "name of the split to write, e.g. validation for a separate folder; the classes are those in DIR, if it has "
          "some")("overwrite", po::bool_switch(&pictures.overwrites),
                  "replace the split that --split names, if it exists")(
          "targets", po::value(&targets)->value_name("FILE.csv"),
          "targets of the pictures, with a header: path,class or path,labels (several separated by ;) or "
          "path,NAME... (numbers)")(
          "task", po::value(&task)->value_name("TASK"),
          "classification, multilabel or regression; default: as the cells of --targets look")(
          "background", po::value(&background)->value_name("COLOUR"),
          "colour behind transparent pixels: white, black or #rrggbb; default: white, or that of the records in DIR; "
          "records.json and checkpoints store it")(
          "resize-shorter", po::value(&pictures.conversion.resize_shorter)->value_name("N")->default_value(0),
          "pixels of the shorter side to which larger pictures are reduced; 0: keep all sizes")(
          "quality", po::value(&pictures.conversion.quality)->value_name("N")->default_value(95),
          "JPEG quality of reduced pictures, 1 to 100")("seed",
                                                        po::value(&pictures.seed)->value_name("N")->default_value(1),
                                                        "seed of the order and of --validation-share")(
          "skip-damaged", po::bool_switch(&pictures.conversion.skip_damaged),
          "skip damaged pictures with a warning; otherwise the first one ends the conversion");
  po::options_description all;
  all.add(options).add(of_downloads).add(of_pictures).add_options()("format", po::value(&formats));
  const auto manual = [&]() -> Manual {
    return {
        .program = "tfrecord_convert",
        .purpose = purpose,
        .synopses = synopses,
        .description = usage,
        .groups = {manual_group("", options), manual_group("options of the formats mnist and cifar10", of_downloads),
                   manual_group("options of the format images", of_pictures)},
        .words = {"images", "mnist", "cifar10"},
        .exit_statuses = {
            {0, "done"}, {64, "bad usage"}, {65, "damaged input"}, {66, "input missing"}, {74, "I/O error"}}};
  };
  if (print_document(argc, argv, manual)) return 0;
  po::variables_map given;
  try {
    po::store(po::command_line_parser(argc, argv)
                  .options(all)
                  .positional(po::positional_options_description().add("format", -1))
                  .run(),
              given);
    po::notify(given);
    if (formats.size() > 1) {
      fail(ExitCode::usage, "'{}' belongs to no option: name files and folders with --input and --output (see --help)",
           printable(formats[1]));
    }
    if (!formats.empty()) format = formats.front();
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
  if (input.empty() && !download.is_requested) {
    fail(ExitCode::usage, "--input PATH is missing{} (see --help)",
         source == nullptr ? "" : "; --download fetches the dataset");
  }
  if (output.empty()) fail(ExitCode::usage, "--output DIR is missing (see --help)");
  if (shards < 1) fail(ExitCode::usage, "--shards {}: must be 1 or more", shards);
  check_download(download, source == nullptr);
  if (source == nullptr) {
    pictures.conversion.shard_count = static_cast<std::size_t>(shards);
    pictures.names_split = !given["split"].defaulted();
    if (!background.empty()) {
      pictures.background = parse_colour(background);
      if (!pictures.background) {
        fail(ExitCode::usage, "--background '{}': must be white, black or #rrggbb", printable(background));
      }
    }
    pictures.targets = targets;
    if (!task.empty()) {
      pictures.target = target_of_task(task);
      if (!pictures.target) {
        fail(ExitCode::usage, "--task '{}': must be classification, multilabel or regression", printable(task));
      }
      if (targets.empty()) fail(ExitCode::usage, "--task requires --targets");
    }
    print_converted(convert_pictures(pictures, input, output, picture_reports()));
  } else {
    for (const char* name : {"validation-share", "split", "overwrite", "background", "resize-shorter", "quality",
                             "seed", "skip-damaged", "targets", "task"}) {
      if (given.count(name) > 0 && !given[name].defaulted())
        fail(ExitCode::usage, "--{} requires the format {}", name, pictures_format);
    }
    if (download.is_requested) input = download_source(*source, download, input, output);
    convert(*source, input, output, static_cast<std::size_t>(shards));
  }
  return 0;
}

}  // namespace

int tfrecord_convert_main(int argc, char** argv) {
  return single_process_main("tfrecord_convert", [&] { return convert_main(argc, argv); });
}

}  // namespace carillon
