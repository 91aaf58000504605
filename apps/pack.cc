// stoker pack: the packed weights of a model in the store, ahead of the first start.
#include "stoker/pack.h"

#include <cstdio>
#include <string>

#include "commands.h"
#include "common.h"
#include "loading.h"
#include "texts.h"

namespace stoker {
namespace {

constexpr const char* kPackExamples =
    "  stoker pack demo\n"
    "  stoker pack /models/DeepSeek-V4.1-Flash --store /fast/stoker --verify full\n";

Result<PackedFile> pack(const std::string& model, PackOptions options) {
  LoadingProgress progress;
  options.progress = [&progress](const Progress& now) { progress.update(now); };
  options.log = log_warning;
  return pack_model(model, options);
}

}  // namespace

int pack_command(const Arguments& arguments) {
  std::string model;
  PackOptions options;
  OptionParser parser(
      "pack",
      "Writes the weights of a model into the store as the kernels read them. Other "
      "commands do so at their first start.",
      kPackExamples);
  parser.positional("MODEL", &model, kModelHelp);
  add_store_option(parser, &options.store);
  parser.choice(
      "--verify", {"full"}, [&options](size_t /*index*/) { options.verify = Verify::kFull; },
      "Hold what is there already against its digests, and make it again if it is damaged");
  add_threads_option(parser, &options.num_threads);
  if (const auto code = parser.parse(arguments)) return *code;

  const Result<PackedFile> packed = pack(model, options);
  if (!packed) return report(packed.error());
  return print_result(packed->path + "\n" + (packed->is_new ? "packed" : "was there") + ": " +
                      std::to_string(packed->num_bytes) + " bytes (" +
                      size_text(packed->num_bytes) + "), digest " + packed->digest + "\n");
}

}  // namespace stoker
