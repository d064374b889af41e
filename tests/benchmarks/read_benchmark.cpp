// read_benchmark: measures how fast one thread reads records from the page cache, with each of Carillon's readers.
//
//   tfrecord_convert mnist --input DIR --output data && read_benchmark data/train-00000-of-00001.tfrecord
//   read_benchmark                              makes its own records in a temporary directory: 600000 like MNIST's
//                                               (1.8 kB), plain and GZIP, and 50000 like CIFAR-10's (3.1 kB)
// "decoded" is the work that a training does once per record: check both checksums, parse the Example, copy the image.
// "start-up" is the time from opening the cached dataset to the first shuffled batch.
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "carillon/core/error.h"
#include "carillon/data/dataset.h"
#include "carillon/data/decoder.h"
#include "carillon/data/record.h"
#include "src/data/convert/shard_writer.h"
#include "src/data/loading/batch_loader.h"
#include "src/data/records/example_proto.h"

namespace carillon {
namespace {

/// One kind of records (of MNIST or of CIFAR-10), with the decoder for these records.
struct Form {
  std::shared_ptr<const RecordDecoder> decoder;
  ExampleKeys keys;
  ExampleEncoder encode;
};
const ExampleKeys mnist_keys{.image = "image_raw", .label = "label"}, cifar10_keys{.image = "image", .label = "label"};
const Form mnist_form{grey_records({.keys = mnist_keys, .image_shape = {28, 28, 1}, .class_count = 10}), mnist_keys,
                      encode_mnist};
const Form cifar10_form{planar_records({.keys = cifar10_keys, .image_shape = {32, 32, 3}, .class_count = 10}),
                        cifar10_keys, encode_cifar10};
constexpr int trial_count = 7;
constexpr std::size_t batch_size = 100;

/// Returns the form whose decoder can decode the first record of the file.
const Form& form_of(const std::string& path) {
  RecordReader reader(path);
  Record record;
  std::vector<std::uint8_t> image(mnist_form.decoder->image_shape().bytes());
  check(reader.next(record), "a file of no records");
  try {
    std::array<std::byte, sizeof(std::int32_t)> label;
    mnist_form.decoder->decode(record.data, 0, image, label);
    return mnist_form;
  } catch (const Error&) {
    return cifar10_form;
  }
}

/// Returns images of random pixels. As in MNIST, 81 % of the pixels are 0, and 10 % are 128 or more.
ImageSplit synthetic_split(std::size_t count, const Form& form) {
  ImageSplit split{.name = "train", .image_bytes = form.decoder->image_shape().bytes(), .images = {}, .labels = {}};
  std::mt19937 random(1);
  for (std::size_t i = 0; i < count * split.image_bytes; ++i) {
    const auto draw = static_cast<std::uint32_t>(random());
    const std::uint32_t kind = draw % 100;
    split.images.push_back(static_cast<std::uint8_t>(kind < 81 ? 0 : kind < 90 ? draw >> 25 : 128 + (draw >> 25)));
  }
  for (std::size_t i = 0; i < count; ++i) split.labels.push_back(static_cast<std::uint8_t>(i % 10));
  return split;
}

std::string compress(const std::string& plain_path) {
  const std::string path = plain_path + ".gz";
  std::ifstream plain(plain_path, std::ios::binary);
  const gzFile out = gzopen(path.c_str(), "wb6");
  std::vector<char> buffer(1 << 20);
  while (plain.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), plain.gcount() > 0)
    gzwrite(out, buffer.data(), static_cast<unsigned>(plain.gcount()));
  gzclose(out);
  return path;
}

/// Runs `pass` several times, and prints the best and the median rate. `pass` returns how many records it has read. If
/// `file_bytes` is not 0, `pass` reads a whole file of this size, and the rate is also printed in bytes.
template <typename Pass>
void measure(const std::string& what, std::uintmax_t file_bytes, const Pass& pass) {
  std::vector<double> seconds;
  std::size_t records = 0;
  for (int trial = 0; trial < trial_count; ++trial) {
    const auto start = std::chrono::steady_clock::now();
    records = pass();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  const double count = static_cast<double>(records), best = seconds.front(), median = seconds[seconds.size() / 2];
  fmt::print("  {:<44} {:>12.0f} records/s  (median {:.0f})  {:6.1f} ms", what, count / best, count / median,
             1e3 * best);
  if (file_bytes > 0) fmt::print("  {:.2f} GB/s", 1e-9 * static_cast<double>(file_bytes) / best);
  fmt::print("\n");
}

std::size_t read_framing(const std::string& path, RecordCheck check) {
  RecordReader reader(path, check);
  std::size_t count = 0;
  for (Record record; reader.next(record);) ++count;
  return count;
}

std::size_t read_decoded(const std::string& path, const Form& form) {
  RecordReader reader(path);
  std::vector<std::uint8_t> image(form.decoder->image_shape().bytes());
  std::array<std::byte, sizeof(std::int32_t)> label;
  std::size_t count = 0;
  for (Record record; reader.next(record); ++count) form.decoder->decode(record.data, 0, image, label);
  return count;
}

std::size_t read_generated(const std::string& path, const Form& form) {
  RecordReader reader(path);
  std::string image;
  std::size_t count = 0;
  for (Record record; reader.next(record); ++count) parse_example_generated(record.data, form.keys, image);
  return count;
}

std::size_t read_batches(const Dataset& dataset, std::size_t batch_count) {
  BatchLoader loader(dataset, SampleOrder(dataset.size(), 1, true),
                     {.start = 0, .global_batch = batch_size, .tower_offset = 0, .batch_size = batch_size});
  for (std::size_t step = 0; step < batch_count; ++step) loader.next();
  return batch_count * batch_size;
}

std::size_t start_up(const std::vector<std::string>& paths, const Form& form) {
  const Dataset dataset = Dataset::open(paths, form.decoder, CacheMode::memory);
  read_batches(dataset, 1);
  return dataset.size();
}

void print_peak() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("  peak resident set so far {} MiB\n", usage.ru_maxrss >> 10);
}

void measure_file(const std::string& path) {
  const std::vector<std::string> paths = {path};
  const bool gzip = RecordReader(path).gzip();
  const Form& form = form_of(path);
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  fmt::print("{} ({}, {} bytes)\n", path, gzip ? "GZIP" : "plain", bytes);
  measure("framing", bytes, [&] { return read_framing(path, RecordCheck::framing); });
  measure("verified", bytes, [&] { return read_framing(path, RecordCheck::data); });
  measure("verified, decoded", bytes, [&] { return read_decoded(path, form); });
  measure("verified, decoded by the generated parser", bytes, [&] { return read_generated(path, form); });
  measure("Dataset::open, cached", bytes, [&] { return Dataset::open(paths, form.decoder, CacheMode::memory).size(); });
  measure("start-up", bytes, [&] { return start_up(paths, form); });
  print_peak();
  if (gzip) return;
  measure("Dataset::open, indexed", bytes, [&] { return Dataset::open(paths, form.decoder, CacheMode::none).size(); });
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    const Dataset dataset = Dataset::open(paths, form.decoder, cache);
    measure(fmt::format("shuffled batches of {}, {}", batch_size, dataset.in_memory() ? "cached" : "indexed"), 0,
            [&] { return read_batches(dataset, dataset.size() / batch_size); });
  }
}

int benchmark(std::span<char* const> arguments) {
  std::vector<std::string> files(arguments.begin(), arguments.end());
  const std::filesystem::path scratch =
      std::filesystem::temp_directory_path() / fmt::format("carillon_read_benchmark.{}", ::getpid());
  if (files.empty()) {
    const auto write = [&](std::size_t count, const Form& form, const char* name) {
      CompleteSplit complete =
          make_image_shards(synthetic_split(count, form), 1, scratch / name, form.encode, [](std::size_t) {});
      publish(scratch / name, {&complete, 1});
      return complete.written.files.front().string();
    };
    const std::string mnist = write(600'000, mnist_form, "mnist");
    files = {mnist, compress(mnist), write(50'000, cifar10_form, "cifar10")};
  }
  for (const std::string& file : files) measure_file(file);
  std::filesystem::remove_all(scratch);
  print_peak();
  return 0;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::single_process_main("read_benchmark", [&] {
    return carillon::benchmark(std::span<char* const>(argv + 1, static_cast<std::size_t>(argc - 1)));
  });
}
