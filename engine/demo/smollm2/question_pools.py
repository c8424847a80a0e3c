"""Subjects and sentence forms from which data.py makes prompts; none is copied text.

Held out by position: of every eight subjects, forms and follow-ups the last is for tests only.
"""

SUBJECTS = """rainbows; tides; comets; glaciers; volcanoes; thunderstorms; deserts; coral reefs;
caves; rivers and deltas; fossils; magnetism; electric circuits; batteries; lasers; sound waves;
gravity; friction; heat pumps; steam engines; gears and levers; telescopes; microscopes; satellites;
rockets; the Moon's phases; Saturn's rings; black holes; the speed of light; atoms; chemical
reactions; acids and bases; soap; glass; steel; paper making; concrete; plastics; photosynthesis;
seeds; mushrooms; bees; ants; spiders; owls; penguins; whales; sharks; octopuses; frogs; horses;
cats; wolves; elephants; dinosaurs; evolution; DNA; cells; bacteria; viruses; vaccines; antibiotics;
the immune system; the heart; the lungs; muscles; bones; the brain; memory; sleep; dreams;
nutrition; vitamins; sugar; salt; bread; cheese; tea; coffee; chocolate; rice; soup; pancakes;
pickles; spices; olive oil; picnics; kitchen knives; table manners; gardening; compost; houseplants;
lawns; fruit trees; beekeeping; knitting; sewing; pottery; woodworking; origami; painting; drawing
portraits; photography; film editing; theatre; opera; jazz; the violin; the piano; choirs; folk
dances; poetry; novels; fairy tales; crossword puzzles; chess; card games; jigsaw puzzles; kites;
juggling; magic tricks; swimming; cycling; running; hiking; sailing; skiing; climbing; yoga;
football; tennis; archery; camping; maps; compasses; train travel; airports; hotels; passports;
museums; libraries; bridges; tunnels; canals; lighthouses; castles; pyramids; aqueducts; windmills;
skyscrapers; city parks; public transport; traffic lights; recycling; drinking water; sewers; solar
panels; wind turbines; nuclear power; electric cars; insulation; clocks; calendars; the alphabet;
printing; newspapers; radio; television; telephones; the internet; passwords; encryption; computer
viruses; search engines; spreadsheets; databases; compilers; sorting algorithms; binary search; hash
tables; linked lists; recursion; graphs; regular expressions; unit tests; version control; code
reviews; file systems; operating systems; threads; caches; floating-point numbers; prime numbers;
fractions; percentages; triangles; circles; probability; averages; logarithms; matrices; proofs by
induction; paradoxes; optical illusions; money; banks; inflation; taxes; insurance; budgets;
savings; stock markets; auctions; trade; contracts; elections; constitutions; courts; juries;
diplomacy; the Roman Republic; the Silk Road; the Vikings; the Black Death; the Renaissance; the
Industrial Revolution; the Age of Sail; ancient Greece; the Maya; the Ming dynasty; samurai;
feudalism; colonial history; suffrage; railways; exploration of the poles; space races; archaeology;
genealogy; languages; accents; translation; sign language; grammar; spelling; handwriting; public
speaking; job interviews; resumes; meetings; negotiation; teamwork; leadership; mentoring; time
management; procrastination; habits; goals; motivation; stress; friendship; apologies; kindness;
honesty; curiosity; patience; courage; humour; parenting; school; homework; exams; note taking;
reading aloud; learning a language; first aid; fire safety; road safety; earthquakes; floods;
droughts; weather forecasts; climate; seasons; forests; wetlands; oceans; islands; mountains;
farming; irrigation; fishing; markets; street food; festivals; weddings; birthdays; gift giving;
pets; dog training; bird watching; stargazing; robots; drones; sensors; 3D printing; machine
learning; chatbots; video games; board games; podcasts; social media; privacy"""

FORMS = """Explain {s} to a child.|What is the most important thing to know about {s}?|Tell me about
{s}.|Give me three facts about {s}.|Write a short story about {s}.|How do I get started with
{s}?|What are the pros and cons of {s}?|Write a poem about {s}.|Summarize {s} in two sentences.|Why
do people care about {s}?|What is the history of {s}?|List five questions about {s} with
answers.|Write an email to a friend about {s}.|Describe {s} in one paragraph.|What is a common
mistake with {s}?|Make a plan to learn about {s} in one week.|Compare {s} and {t}.|Write a dialogue
about {s}.|What would happen without {s}?|How does {s} relate to {t}?|Write the opening of a talk on
{s}.|Who should learn about {s}, and why?|Give an example that shows how {s} works.|I know nothing
about {s}. Where should I begin?|What are the main ideas behind {s}?|Write a Python function that
has to do with {s}.|Write a short essay on {s}.|Explain the difference between {s} and {t}.|Give me
a checklist for {s}.|Write a quiz with four questions on {s}.|What do experts disagree about when it
comes to {s}?|How has {s} changed in the last hundred years?|Describe a day in the life of someone
who works with {s}.|What tools do I need for {s}?|Write a product description that mentions {s}.|Is
{s} hard to understand? Explain.|Give me ten words related to {s} and define each.|Write a letter of
complaint about {s}.|How would you teach {s} to adults?|What can {s} teach us about life?|Write a
limerick about {s}.|Outline a chapter on {s}.|What are the parts of {s}?|How much does {s}
cost?|Please write a step-by-step guide to {s}.|Write a news report about {s}.|Which myths about {s}
are wrong?|Give advice to a beginner in {s}.|In what ways do {s} and {t} affect each other?|Write a
speech in favor of {s}.|Name some famous people connected with {s}.|What is the future of
{s}?|Create a table of facts about {s}.|Write a review of a book on {s}.|What skills does {s}
need?|Explain {s} using an analogy with {t}.|How can I make {s} more interesting?|What is the
science behind {s}?|Write instructions for a game based on {s}.|Can you give me a definition of
{s}?|Describe {s} to someone from the past.|What problems does {s} solve?|Write a motivational
message about {s}.|Rewrite this in simple words: {s} and {t} are closely linked.|What is special
about {s} in winter?|Plan a lesson on {s} for ten-year-olds.|Suggest a title and three headings for
an article on {s}.|How do {s} work?|Where can I see {s}?|Write two arguments about {s}, one for and
one against.|Tell me a joke about {s}.|What should I avoid when dealing with {s}?|Write a class in
Python that models {s}.|How would you measure {s}?|Give me a fun activity about {s}.|What is the
link between {s} and health?|Write a diary entry about {s}.|Explain why {s} matter to the
economy.|Write a conversation between two friends who disagree on {s}.|Give a short answer: what is
{s}?"""

FOLLOW_UPS = """Can you give an example?|Make it shorter.|Why is that?|Explain it in more
detail.|Thanks! What about {s}?|Write that as a list.|Can you say it in simpler words?|What comes
next?|Is there another way?|Give me two more.|How would I explain that to a friend?|What are the
exceptions?|Now write it as a poem.|Who discovered this?|Summarize our conversation.|Are you
sure?|And how does it relate to {s}?|Rewrite it for an expert.|What should I read next?|Turn it into
a short story.|Which of these is the most important?|Could you write some code for that?|Translate
the main point into plain English.|What is the first step?|I don't understand the last part.|Let's
talk about {s} instead.|Give me the opposite view.|How long does it take?|Ask me a question about
it.|Write a title for it.|Okay. Tell me about {s}.|Please continue."""

TEXT_FORMS = """Summarize the following text.|What is this text about?|Explain this in simple
words.|List the main points of the text below.|Rewrite this text more clearly.|Continue this
text.|Ask three questions about this text.|Give this text a title and explain your choice."""

CODE_FORMS = """Explain this function.|What does this code do?|Find possible bugs in this
code.|Continue this code.|Write a docstring for this code.|Rewrite this code so that it is easier to
read.|Write a test for this code.|Explain this code line by line."""

SYSTEMS = """You are a helpful assistant.|You are a patient teacher.|Answer in one short
paragraph.|You are an experienced programmer.|Answer like a pirate.|You are a careful scientist.|Be
brief.|You are a friendly guide who loves examples."""


def pool(text, mark):
    return [" ".join(item.split()) for item in text.split(mark)]


def split_of(items, split):
    """The last of every eight is the test's."""
    return [item for i, item in enumerate(items) if (i % 8 == 7) == (split == "test")]


def pools(split):
    """{name: [sentence]} of a split."""
    found = {"subjects": split_of(pool(SUBJECTS, ";"), split)}
    sources = {
        "forms": FORMS,
        "follow_ups": FOLLOW_UPS,
        "text_forms": TEXT_FORMS,
        "code_forms": CODE_FORMS,
        "systems": SYSTEMS,
    }
    for name, text in sources.items():
        found[name] = split_of(pool(text, "|"), split)
    return found
