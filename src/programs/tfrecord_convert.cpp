// tfrecord_convert: turns a published data set into the TFRecord files that the training programs read.
#include <unistd.h>

#include <boost/program_options.hpp>
#include <iostream>

#include "carillon/core/error.h"
#include "carillon/core/single_process_main.h"
#include "src/data/sources/cifar10_source.h"
#include "src/data/sources/mnist_source.h"

namespace carillon {
namespace {

namespace po = boost::program_options;

/// A source format: what it is called on the command line, and its two functions.
struct SourceFormat {
  std::string_view name;
  std::vector<ImageSplit> (*read)(const std::filesystem::path& input);
  ExampleEncoder encode;
};

const SourceFormat& find_format(const std::string& name) {
  static const SourceFormat formats[] = {{"mnist", read_mnist, encode_mnist},
                                         {"cifar10", read_cifar10, encode_cifar10}};
  std::string known;
  for (const SourceFormat& format : formats) {
    if (format.name == name) return format;
    known += fmt::format(" {}", format.name);
  }
  fail(ExitCode::usage, "unknown format '{}'; known:{} (see --help)", name, known);
}

constexpr const char* usage = R"(usage: tfrecord_convert FORMAT --input PATH --output DIR [--shards N]

Converts a published data set to TFRecord files of tf.train.Example:
OUTPUT/train-00000-of-0000N.tfrecord ..., OUTPUT/test-00000-of-0000N.tfrecord ..., in source order.

formats:
  mnist    a folder of MNIST's or Fashion-MNIST's IDX files, plain or .gz:
           train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte;
           features image_raw (bytes, 784), pixels (int64, their number), label (int64)
  cifar10  CIFAR-10's binary version, as a folder or its archive (.tar, or .tar.gz, .xz, .bz2, .zst):
           data_batch_1.bin to data_batch_5.bin, test_batch.bin;
           features image (bytes, 3072: planes red, green, blue), label (int64)

)";

/// A line on the terminal that counts records; silent when stderr is a file or a pipe.
std::function<void(std::size_t)> progress_line(const ImageSplit& split) {
  if (!::isatty(STDERR_FILENO)) return [](std::size_t) {};
  return [&split](std::size_t done) {
    fmt::print(stderr, "\r{}: {}/{} records{}", split.name, done, split.count(), done == split.count() ? "\n" : "");
  };
}

void convert(const SourceFormat& format, const std::string& input, const std::string& output, std::size_t shards) {
  const auto splits = format.read(input);
  check_shards(splits, shards, output);
  for (const ImageSplit& split : splits) {
    const WrittenSplit written = write_shards(split, shards, output, format.encode, progress_line(split));
    fmt::print("{:<5} {:>6} records {:>10} bytes  {}{}\n", split.name, written.record_count, written.bytes,
               written.files.front().string(),
               written.files.size() > 1 ? fmt::format(" and {} more", written.files.size() - 1) : "");
  }
}

int convert_main(int argc, char** argv) {
  std::string format, input, output;
  std::int64_t shards = 1;
  po::options_description options("options");
  options.add_options()("help,h", "print this text and exit")  //
      ("input", po::value(&input)->value_name("PATH"), "the source: a folder, or an archive where the format has one")(
          "output", po::value(&output)->value_name("DIR"), "directory to write to; made if it is not there")(
          "shards", po::value(&shards)->value_name("N")->default_value(1), "files per split");
  po::options_description all;
  all.add(options).add_options()("format", po::value(&format));
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
  if (given.count("help") > 0) {
    std::cout << usage << options
              << "\nexit codes: 0 done, 64 bad usage, 65 damaged input, 66 input missing, 74 an I/O "
                 "error\n";
    return 0;
  }
  if (format.empty()) fail(ExitCode::usage, "name a format, for example mnist (see --help)");
  const SourceFormat& source = find_format(format);
  if (input.empty()) fail(ExitCode::usage, "--input PATH is missing (see --help)");
  if (output.empty()) fail(ExitCode::usage, "--output DIR is missing (see --help)");
  if (shards < 1) fail(ExitCode::usage, "--shards {}: must be 1 or more", shards);
  convert(source, input, output, static_cast<std::size_t>(shards));
  return 0;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::single_process_main("tfrecord_convert", [&] { return carillon::convert_main(argc, argv); });
}
