// headway: translate, train, evaluate, embed, classify, tag, answer, look at attention.
#include <csignal>

#include "program.h"

int main(int argument_count, char** arguments) {
  // A file that grows past the limit of the system (ulimit -f) is then an error that the writer sees.
  std::signal(SIGXFSZ, SIG_IGN);
  cli::Program program;
  cli::add_translate(program);
  cli::add_train(program);
  cli::add_finetune(program);
  cli::add_evaluate(program);
#ifdef HEADWAY_PROGRAM_WITH_MEDIA
  cli::add_transcribe(program);
  cli::add_caption(program);
#endif
  cli::add_embed(program);
  cli::add_classify(program);
  cli::add_tag(program);
  cli::add_answer(program);
  cli::add_fill(program);
  cli::add_recommend(program);
  cli::add_attend(program);
  cli::add_generate(program);
  cli::add_summarize(program);
#ifdef HEADWAY_PROGRAM_WITH_MEDIA
  cli::add_classify_picture(program);
#endif
  cli::add_tokenizer(program);
  cli::add_data(program);
  cli::add_quantize(program);
  cli::add_info(program);
  cli::add_completion(program);
  cli::add_man(program);
  return program.run(argument_count, arguments);
}
